//! A capture as Wireshark's own reader sees it. Without tshark (Debian package `tshark`) there is nothing to ask.

use std::process::Command;
use std::time::Duration;
use tollgate_link::Side;
use tollgate_link::capture::{Capture, Config};
use tollgate_link::memory::Memory;
use tollgate_stack::buffer::Pool;
use tollgate_stack::link::Link;
use tollgate_stack::time::Instant;

#[test]
fn tshark_sees_the_same_frames() {
    if Command::new("tshark").arg("--version").output().is_err() {
        tollgate_skip::skipped!("tshark is not installed");
        return;
    }
    let path = tempfile::Builder::new()
        .suffix(".pcapng")
        .tempfile()
        .unwrap()
        .into_temp_path();
    let config = Config {
        name: "tollgate0".into(),
        snaplen: 1000,
        epoch: Duration::from_secs(1_700_000_000),
    };
    let mut pool = Pool::new(64, 2048);
    let mut cable = Memory::new(1500);
    let lengths: Vec<usize> = (0..40).map(|number| 60 + number * 37).collect();
    let mut back: Vec<_> = (0..3).map(|_| pool.frame_from(&[0; 60]).unwrap()).collect();
    cable.end(Side::B).transmit(&mut pool, &mut back);
    let mut capture = Capture::new(
        cable.end(Side::A),
        std::fs::File::create(&path).unwrap(),
        &config,
    );
    let mut expected = Vec::new();
    for (number, &len) in lengths.iter().enumerate() {
        let mut bytes = vec![0xA5; len];
        // From and to locally administered addresses, with an experimental type.
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]);
        capture.set_now(Instant::from_nanos(number as u64 * 1001));
        capture.comment(&format!("frame {number}"));
        let mut burst = vec![pool.frame_from(&bytes).unwrap()];
        capture.transmit(&mut pool, &mut burst);
        let time = format!("1700000000.{:09}", number * 1001);
        expected.push(format!(
            "{time},{len},{},frame {number},0x00000002",
            len.min(1000)
        ));
    }
    let mut arrived = Vec::new();
    capture.receive(&mut pool, &mut arrived);
    expected.extend([const { "1700000000.000039039,60,60,,0x00000001" }; 3].map(String::from));
    let stats = capture.finish().unwrap();
    assert_eq!((stats.outbound, stats.inbound, stats.lost), (40, 3, 0));

    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "frame.comment",
        "frame.packet_flags",
    ];
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-E", "separator=,"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .arg("-r")
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = String::from_utf8(output.stdout).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
}
