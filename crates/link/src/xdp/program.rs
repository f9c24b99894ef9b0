//! The XDP program that steers what is for us to our sockets, and its link to the interface.
//!
//! It is some thirty instructions, seventy with IPv6, so it is written here: whoever builds this crate needs neither clang nor
//! libbpf, and this crate lies below the one that loads the gates. These go to the socket of their queue:
//!
//! - IPv4 and IPv6 for an address of ours that was sent to our link address;
//! - ARP that asks for our address or answers us;
//! - solicitations and advertisements of an IPv6 address of ours that were sent to a group;
//! - units of the spanning tree protocol by which hosts announce themselves (`lan` in the stack). Those of bridges are the host's.
//!
//! All else goes on to the host, and so does what comes by a queue without a socket.
//!
//! The program is attached by a link (`BPF_LINK_CREATE`), never pinned: the kernel detaches it when the last descriptor is closed,
//! however the process ends.

use super::Mode;
use crate::interface::{self, Addresses, GROUP, OpenError, unit};
use crate::jumps::Jumps;
use libc::{c_int, c_long};
use rustix::io::Errno;
use std::ffi::CStr;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use tollgate_wire::bpdu::BRIDGE_GROUP;
use tollgate_wire::ethernet::{EtherType, MacAddr};
use tollgate_wire::icmpv6::Discovery;
use tollgate_wire::ipv6::protocol;

/// Queues of an interface that can have a socket.
pub(super) const QUEUES: u32 = 256;

// Commands, kinds and flags of linux/bpf.h and linux/if_link.h.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const LINK_DETACH: c_int = 34;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const FLAGS_SKB_MODE: u32 = 1 << 1;
const FLAGS_DRV_MODE: u32 = 1 << 2;
const REDIRECT_MAP: i32 = 51;
const PSEUDO_MAP_FD: u8 = 1;
/// The host goes on with the frame.
const XDP_PASS: i32 = 2;

// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

// Offsets in a frame (RFC 791, 3.1; RFC 826; RFC 8200, 3; RFC 4861, 4.3 and 4.4), and bytes that must be there to read at them.
const MAC_FRONT: i16 = 0;
const MAC_BACK: i16 = 4;
const ETHER_TYPE: i16 = 12;
const IPV4_DESTINATION: i16 = 30;
const IPV4_LEN: i32 = 34;
const ARP_TARGET: i16 = 38;
const ARP_LEN: i32 = 42;
const NEXT_HEADER: i16 = 20;
const IPV6_DESTINATION: i32 = 38;
const IPV6_LEN: i32 = 54;
const ICMPV6_TYPE: i16 = 54;
const NDP_TARGET: i32 = 62;
const NDP_LEN: i32 = 78;

/// An instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

// Codes of the instructions that are used (the kernel's bpf/standardization/instruction-set).
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const LOAD_MAP: u8 = 0x18;
/// Of as many bits as the immediate says, from and to big-endian.
const BIG_ENDIAN: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_ABOVE: u8 = 0x2d;
/// Of the lower 32 bits.
const JUMP_EQUAL: u8 = 0x16;
const JUMP_UNEQUAL: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Places that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv6,
    Group,
    Target,
    CompareIpv6,
    LinkLocal,
    Arp,
    Compare,
    Unit,
    Redirect,
    Pass,
}

/// A program that is being written.
#[derive(Default)]
struct Code {
    instructions: Vec<Instruction>,
    jumps: Jumps<Label>,
}

impl Code {
    fn put(&mut self, code: u8, (to, from): (u8, u8), offset: i16, immediate: i32) {
        self.instructions.push(Instruction {
            code,
            registers: to | from << 4,
            offset,
            immediate,
        });
    }

    fn jump(&mut self, code: u8, registers: (u8, u8), immediate: i32, label: Label) {
        self.jumps.jump(self.instructions.len(), label);
        self.put(code, registers, 0, immediate);
    }

    fn label(&mut self, label: Label) {
        self.jumps.place(label, self.instructions.len());
    }

    /// Goes on at `Pass` unless the frame, which begins at r1 and ends at r2, has so many bytes.
    fn need(&mut self, bytes: i32) {
        self.put(MOVE, (3, 1), 0, 0);
        self.put(ADD_IMMEDIATE, (3, 0), 0, bytes);
        self.jump(JUMP_ABOVE, (3, 2), 0, Label::Pass);
    }

    /// Goes on for a frame to this link address alone.
    fn need_mac(&mut self, mac: MacAddr, otherwise: Label) {
        let [a, b, c, d, e, f] = mac.0;
        let (front, back) = ([a, b, c, d], [e, f]);
        self.put(LOAD_32, (3, 1), MAC_FRONT, 0);
        self.jump(JUMP_UNEQUAL, (3, 0), i32::from_ne_bytes(front), otherwise);
        self.put(LOAD_16, (3, 1), MAC_BACK, 0);
        let back = u16::from_ne_bytes(back).into();
        self.jump(JUMP_UNEQUAL, (3, 0), back, Label::Pass);
    }

    /// Goes on at `Redirect` for a frame of IPv6 that is for one of these addresses, else at `Pass`. Its EtherType is in r3.
    fn take_ipv6(&mut self, addresses: &Addresses, [global, link_local]: [Ipv6Addr; 2]) {
        self.jump(
            JUMP_UNEQUAL,
            (3, 0),
            ether_type(EtherType::Ipv6),
            Label::Unit,
        );
        self.need(IPV6_LEN);
        // The address that is compared is at r4.
        self.put(MOVE, (4, 1), 0, 0);
        self.put(ADD_IMMEDIATE, (4, 0), 0, IPV6_DESTINATION);
        self.need_mac(addresses.mac, Label::Group);
        self.jump(JUMP, (0, 0), 0, Label::CompareIpv6);
        self.label(Label::Group);
        self.put(LOAD_16, (3, 1), MAC_FRONT, 0);
        self.jump(JUMP_UNEQUAL, (3, 0), GROUP.to_be().into(), Label::Pass);
        self.put(LOAD_8, (3, 1), NEXT_HEADER, 0);
        self.jump(JUMP_UNEQUAL, (3, 0), protocol::ICMP.into(), Label::Pass);
        self.need(NDP_LEN);
        self.put(LOAD_8, (3, 1), ICMPV6_TYPE, 0);
        let number = |message: Discovery| message.number().into();
        let solicitation = number(Discovery::NeighbourSolicitation);
        self.jump(JUMP_EQUAL, (3, 0), solicitation, Label::Target);
        let advertisement = number(Discovery::NeighbourAdvertisement);
        self.jump(JUMP_UNEQUAL, (3, 0), advertisement, Label::Pass);
        self.label(Label::Target);
        self.put(ADD_IMMEDIATE, (4, 0), 0, NDP_TARGET - IPV6_DESTINATION);
        for (here, address, otherwise) in [
            (Label::CompareIpv6, global, Label::LinkLocal),
            (Label::LinkLocal, link_local, Label::Pass),
        ] {
            self.label(here);
            let octets = address.octets();
            let (words, _) = octets.as_chunks();
            // The last word first: it differs where any does, mostly.
            for (number, word) in words.iter().enumerate().rev() {
                self.put(LOAD_32, (3, 4), 4 * number as i16, 0);
                self.jump(JUMP_UNEQUAL, (3, 0), i32::from_ne_bytes(*word), otherwise);
            }
            self.jump(JUMP, (0, 0), 0, Label::Redirect);
        }
    }

    /// Loads 16 bits of the frame, which begins at r1, in the order of this machine.
    fn load_number(&mut self, register: u8, at: i16) {
        self.put(LOAD_16, (register, 1), at, 0);
        self.put(BIG_ENDIAN, (register, 0), 0, 16);
    }

    /// Goes on at `Redirect` for a host's announcement, else at `Pass`.
    fn take_announcement(&mut self) {
        self.need(unit::LEN as i32);
        self.load_number(3, ETHER_TYPE);
        self.put(MOVE_IMMEDIATE, (4, 0), 0, unit::LONGEST as i32);
        self.jump(JUMP_ABOVE, (3, 4), 0, Label::Pass);
        self.need_mac(BRIDGE_GROUP, Label::Pass);
        self.load_number(3, unit::SERVICE_POINTS as i16);
        let protocol = unit::SPANNING_TREE.into();
        self.jump(JUMP_UNEQUAL, (3, 0), protocol, Label::Pass);
        self.put(LOAD_8, (3, 1), unit::TYPE as i16, 0);
        let kind = unit::CONFIGURATION.into();
        self.jump(JUMP_UNEQUAL, (3, 0), kind, Label::Pass);
        self.load_number(4, unit::MAX_AGE as i16);
        self.load_number(3, unit::AGE as i16);
        self.jump(JUMP_ABOVE, (3, 4), 0, Label::Redirect);
        self.jump(JUMP, (0, 0), 0, Label::Pass);
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, distance) in self.jumps.distances() {
            // The program is short.
            self.instructions[at].offset = distance as i16;
        }
        self.instructions
    }
}

/// An EtherType as it is loaded from a frame.
fn ether_type(kind: EtherType) -> i32 {
    kind.to_u16().to_be().into()
}

/// The program; `otherwise` is what it gives for a frame of ours whose queue has no socket.
fn program(addresses: &Addresses, sockets: BorrowedFd<'_>, otherwise: i32) -> Vec<Instruction> {
    let mut code = Code::default();
    code.put(MOVE, (6, 1), 0, 0);
    code.put(LOAD_32, (2, 1), DATA_END, 0);
    code.put(LOAD_32, (1, 1), DATA, 0);
    code.need(IPV4_LEN);
    code.put(LOAD_16, (3, 1), ETHER_TYPE, 0);
    code.jump(JUMP_EQUAL, (3, 0), ether_type(EtherType::Arp), Label::Arp);
    let otherwise_ipv6 = match addresses.ipv6 {
        Some(_) => Label::Ipv6,
        None => Label::Unit,
    };
    let ipv4 = ether_type(EtherType::Ipv4);
    code.jump(JUMP_UNEQUAL, (3, 0), ipv4, otherwise_ipv6);
    code.need_mac(addresses.mac, Label::Pass);
    code.put(LOAD_32, (3, 1), IPV4_DESTINATION, 0);
    code.jump(JUMP, (0, 0), 0, Label::Compare);
    if let Some(ours) = addresses.ipv6 {
        code.label(Label::Ipv6);
        code.take_ipv6(addresses, ours);
    }
    code.label(Label::Unit);
    code.take_announcement();
    code.label(Label::Arp);
    code.need(ARP_LEN);
    code.put(LOAD_32, (3, 1), ARP_TARGET, 0);
    code.label(Label::Compare);
    let ours = i32::from_ne_bytes(addresses.ipv4.octets());
    code.jump(JUMP_UNEQUAL, (3, 0), ours, Label::Pass);
    code.label(Label::Redirect);
    code.put(LOAD_MAP, (1, PSEUDO_MAP_FD), 0, sockets.as_raw_fd());
    code.put(0, (0, 0), 0, 0);
    code.put(LOAD_32, (2, 6), RX_QUEUE_INDEX, 0);
    code.put(MOVE_IMMEDIATE, (3, 0), 0, otherwise);
    code.put(CALL, (0, 0), 0, REDIRECT_MAP);
    code.put(EXIT, (0, 0), 0, 0);
    code.label(Label::Pass);
    code.put(MOVE_IMMEDIATE, (0, 0), 0, XDP_PASS);
    code.put(EXIT, (0, 0), 0, 0);
    code.finish()
}

/// A member of `union bpf_attr`.
///
/// # Safety
/// It is laid out as the kernel's, and what it points to is valid for the command that takes it.
unsafe trait Attributes {}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}
// SAFETY: the first members of the kernel's; the rest is zero by default.
unsafe impl Attributes for MapCreate {}

#[derive(Default)]
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: as the kernel's; made with pointers to values on the stack.
unsafe impl Attributes for MapUpdate {}

#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
}
// SAFETY: the first members of the kernel's; made with pointers to a vector and to a constant.
unsafe impl Attributes for ProgLoad {}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_interface: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: the first members of the kernel's, which are integers.
unsafe impl Attributes for LinkCreate {}

#[derive(Default)]
#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}
// SAFETY: the kernel's only member.
unsafe impl Attributes for LinkDetach {}

/// Calls bpf(2).
fn bpf<T: Attributes>(command: c_int, attributes: &mut T) -> Result<c_long, Errno> {
    // SAFETY: the kernel reads, and for some commands writes, so many bytes of the attributes and what they point to.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    if outcome < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(outcome)
}

/// Calls bpf(2) for a new descriptor, which is closed on exec.
fn bpf_fd<T: Attributes>(command: c_int, attributes: &mut T) -> Result<OwnedFd, Errno> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    // A descriptor that is open is not negative.
    fd.as_raw_fd().unsigned_abs()
}

/// The map of sockets by queue.
#[derive(Debug)]
pub(super) struct Sockets(OwnedFd);

impl Sockets {
    pub(super) fn new() -> Result<Self, OpenError> {
        let mut attributes = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: QUEUES,
            ..MapCreate::default()
        };
        // A map takes the privilege that the program takes.
        bpf_fd(MAP_CREATE, &mut attributes)
            .map(Self)
            .map_err(OpenError::while_doing(interface::LOADING))
    }

    /// Lets frames of a queue go to a socket.
    pub(super) fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let value = number(socket);
        let mut attributes = MapUpdate {
            map_fd: number(self.0.as_fd()),
            key: (&raw const queue).addr() as u64,
            value: (&raw const value).addr() as u64,
            ..MapUpdate::default()
        };
        bpf(MAP_UPDATE_ELEM, &mut attributes)
            .map(|_| ())
            .map_err(OpenError::while_doing("giving the XDP program its socket"))
    }
}

/// The program, attached to an interface.
#[derive(Debug)]
pub(super) struct Attached {
    link: OwnedFd,
}

impl Drop for Attached {
    /// Detaches the program now: a process that was forked and has not called exec(2) yet has the descriptor as well.
    fn drop(&mut self) {
        let mut attributes = LinkDetach {
            link_fd: number(self.link.as_fd()),
        };
        // Before Linux 5.9 the kernel knows no such command; then the last descriptor detaches it.
        let _ = bpf(LINK_DETACH, &mut attributes);
    }
}

/// Loads the program.
fn load(addresses: &Addresses, sockets: &Sockets, otherwise: i32) -> Result<OwnedFd, OpenError> {
    // The helper is for any licence; the tree's own is told.
    const LICENSE: &CStr = c"Dual MIT/GPL";
    let instructions = program(addresses, sockets.0.as_fd(), otherwise);
    let mut name = [0; 16];
    name[..14].copy_from_slice(b"tollgate_steer");
    let mut attributes = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        name,
        expected_attach_type: ATTACH_TYPE_XDP,
        ..ProgLoad::default()
    };
    bpf_fd(PROG_LOAD, &mut attributes).map_err(OpenError::while_doing(interface::LOADING))
}

impl Attached {
    /// Loads the program and attaches it to an interface of the calling thread's namespace, as the mode asks.
    pub(super) fn new(
        addresses: &Addresses,
        sockets: &Sockets,
        index: u32,
        mode: Mode,
    ) -> Result<Self, OpenError> {
        let program = load(addresses, sockets, XDP_PASS)?;
        let mut attributes = LinkCreate {
            prog_fd: number(program.as_fd()),
            target_interface: index,
            attach_type: ATTACH_TYPE_XDP,
            flags: match mode {
                Mode::ZeroCopy | Mode::Native => FLAGS_DRV_MODE,
                Mode::Generic => FLAGS_SKB_MODE,
            },
        };
        let link = bpf_fd(LINK_CREATE, &mut attributes)
            .map_err(OpenError::while_doing("attaching the XDP program"))?;
        Ok(Self { link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::frames;

    const PROG_TEST_RUN: c_int = 10;
    const XDP_DROP: i32 = 1;

    #[derive(Default)]
    #[repr(C)]
    struct TestRun {
        prog_fd: u32,
        result: u32,
        len_in: u32,
        len_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }
    // SAFETY: the first members of the kernel's; made with a pointer to a frame.
    unsafe impl Attributes for TestRun {}

    #[test]
    fn what_is_for_us_goes_to_a_socket_and_all_else_to_the_host() {
        for addresses in [frames::OURS_V4, frames::OURS] {
            let loaded = Sockets::new().and_then(|sockets| load(&addresses, &sockets, XDP_DROP));
            let program = match loaded {
                Ok(program) => program,
                Err(reason) => {
                    tollgate_skip::skipped!("{reason}");
                    return;
                }
            };
            for (name, frame, is_ours) in frames::all(&addresses) {
                // The kernel runs programs on whole Ethernet headers only.
                if frame.len() < 14 {
                    continue;
                }
                let mut run = TestRun {
                    prog_fd: number(program.as_fd()),
                    len_in: frame.len() as u32,
                    data_in: frame.as_ptr().addr() as u64,
                    repeat: 1,
                    ..TestRun::default()
                };
                bpf(PROG_TEST_RUN, &mut run).unwrap();
                // No queue has a socket, so what would go to one is dropped here.
                let expected = if is_ours { XDP_DROP } else { XDP_PASS };
                assert_eq!(run.result as i32, expected, "{name}");
            }
        }
    }
}
