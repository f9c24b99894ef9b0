use super::*;
use crate::config::Config;
use crate::time::Instant;
use core::net::{Ipv4Addr, SocketAddrV4};
use tollgate_wire::ethernet::MacAddr;

/// A stack with one connection that is being opened.
fn opening() -> (Stack, Pool) {
    let own = Ipv4Addr::new(10, 0, 0, 1);
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    let config = Config::new(MacAddr([2, 0, 0, 0, 0, 1]), own, 24, [1, 2, 3, 4]);
    let now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(16, 2048);
    let mut stack = Stack::new(config, 1500, now).expect("the configuration is valid");
    let mut active = stack.at(now, &mut pool);
    active.add_neighbour(peer, MacAddr([2, 0, 0, 0, 0, 2]));
    active
        .connect(SocketAddrV4::new(peer, 7))
        .expect("there is room");
    (stack, pool)
}

/// The rule that a change breaks.
fn broken_by(change: impl FnOnce(&mut Stack)) -> &'static str {
    let (mut stack, pool) = opening();
    assert_eq!(stack.check_consistency(&pool), Ok(()));
    change(&mut stack);
    match stack.check_consistency(&pool) {
        Ok(()) => "none",
        Err(found) => found.rule,
    }
}

#[test]
fn contradictions_are_named() {
    let tcb = |change: fn(&mut Tcb)| broken_by(|stack| change(&mut stack.tcbs[0]));
    assert_eq!(tcb(|tcb| tcb.predicted ^= 1), "header prediction");
    assert_eq!(tcb(|tcb| tcb.flags |= flag::SLOW_TRANSMIT), "the way out");
    assert_eq!(tcb(|tcb| tcb.tcp_sum ^= 1), "sums of the header template");
    assert_eq!(tcb(|tcb| tcb.key.ports ^= 1), "sums of the header template");
    assert_eq!(
        tcb(|tcb| tcb.snd_nxt += 9),
        "order of the send sequence numbers"
    );
    assert_eq!(tcb(|tcb| tcb.rx_free -= 1), "room of the receive queue");
    assert_eq!(tcb(|tcb| tcb.rare |= rare::FIN_RECEIVED), "the peer's FIN");
    assert_eq!(tcb(|tcb| tcb.flags |= flag::FIN_QUEUED), "our FIN");
    assert_eq!(
        tcb(|tcb| tcb.rtx_deadline = Deadline::NONE),
        "retransmission deadline"
    );
    assert_eq!(
        tcb(|tcb| tcb.armed = tcb.armed.after(1)),
        "entry in the wheel"
    );
    assert_eq!(tcb(|tcb| tcb.flags |= flag::LISTED), "list of events");
    assert_eq!(
        tcb(|tcb| tcb.state = State::Closed),
        "number of entries in the table"
    );
    assert_eq!(broken_by(|stack| stack.cached = 7), "the cached connection");
    assert_eq!(
        broken_by(|stack| stack.open_connections += 1),
        "number of connections"
    );
}

#[test]
fn contradictions_of_recovery_are_named() {
    use crate::tcp::recovery::Recovery;
    use tollgate_wire::SeqNumber;
    use tollgate_wire::tcp::SackBlock;
    let recovery = |change: fn(&mut Tcb, &mut Recovery)| {
        broken_by(|stack| {
            let (tcb, state) = stack.recovery_of(0);
            tcb.rare |= rare::SCOREBOARD;
            change(tcb, state);
            tcb.predict();
        })
    };
    assert_eq!(recovery(|_, _| {}), "none");
    assert_eq!(recovery(|tcb, _| tcb.cwnd += 1), "scoreboard");
    assert_eq!(recovery(|_, state| state.board.sacked += 1), "scoreboard");
    assert_eq!(recovery(|_, state| state.board.lost += 1), "scoreboard");
    assert_eq!(recovery(|_, state| state.board.resent += 1), "scoreboard");
    let told = recovery(|tcb, state| {
        tcb.rare |= rare::SACK_DUE;
        state.reported.arrive(SackBlock {
            start: SeqNumber(10),
            end: SeqNumber(20),
        });
    });
    assert_eq!(told, "ranges that are told of");
    let due = recovery(|tcb, _| tcb.rare |= rare::SACK_DUE);
    assert_eq!(due, "ranges that are told of");
    assert_eq!(
        broken_by(|stack| stack.tcbs[0].rare |= rare::RECOVERY_STATE),
        "states of recovery"
    );
}
