//! The arithmetic of predictions, in plain functions: the same for the papers' counts and for what a run measured.
//!
//! Sizes are bytes, times nanoseconds, rates per second; a line's rate is in bits per second, as lines are sold.

/// Bits of a byte.
const BITS: f64 = 8.0;
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// Number of packets of a message of `size` bytes when a segment carries `mss`: an empty one is a packet, too.
#[must_use]
pub fn packets(size: f64, mss: f64) -> f64 {
    (size / mss).ceil().max(1.0)
}

/// The time of so many instructions on a processor that executes `rate` of them a second (Clark et al. 1989, p. 27).
#[must_use]
pub fn execution_ns(instructions: f64, rate: f64) -> f64 {
    instructions / rate * SECOND
}

/// Events per second, from the time of each in ns.
#[must_use]
pub fn rate(each_ns: f64) -> f64 {
    SECOND / each_ns
}

/// Bits per second of so many packets a second that carry `bytes` each, when a share `of_data` of all packets carries data and
/// the others are acknowledgments of the same cost (Clark et al. 1989, p. 27).
#[must_use]
pub fn throughput_bits(packets_per_s: f64, bytes: f64, of_data: f64) -> f64 {
    packets_per_s * bytes * BITS * of_data
}

/// The smallest packet, in bytes, with which so many packets a second fill a line (Clark et al. 1989, p. 27).
#[must_use]
pub fn smallest_packet(line: f64, packets_per_s: f64) -> f64 {
    line / BITS / packets_per_s
}

/// The smallest message that fills a line when a message costs `per_message` and each of its bytes `per_byte`: none when the
/// bytes alone are too slow.
#[must_use]
pub fn smallest_message(line: f64, per_message: f64, per_byte: f64) -> Option<f64> {
    let spare = BITS * SECOND / line - per_byte;
    (spare > 0.0).then(|| per_message / spare)
}

/// The time that a line leaves for a frame of so many bytes, in nanoseconds (Lehmann and Benz 2002, section 4).
#[must_use]
pub fn budget_ns(frame: f64, line: f64) -> f64 {
    frame * BITS * SECOND / line
}

/// Cycles for each bit: processors busy, times the clock, over the throughput in bits per second (Foong et al. 2003, section
/// 5.1: Hz/bps).
#[must_use]
pub fn hz_per_bit(busy: f64, clock_hz: f64, bits_per_s: f64) -> f64 {
    busy * clock_hz / bits_per_s
}

/// Processors that a line takes at so many cycles for each bit.
#[must_use]
pub fn cores(hz_per_bit: f64, line: f64, clock_hz: f64) -> f64 {
    hz_per_bit * line / clock_hz
}

/// Bits per second that memory allows when it moves `bandwidth` bytes a second, and `moved` for each byte delivered (Clark et
/// al. 1989, p. 27; Foong et al. 2003, section 4).
#[must_use]
pub fn memory_limit_bits(bandwidth: f64, moved: f64) -> f64 {
    bandwidth / moved * BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_papers as papers;

    fn fact(id: &str) -> f64 {
        papers::fact(id).unwrap().value
    }

    fn near(got: f64, want: f64, by: f64) {
        assert!((got - want).abs() <= by, "{got} is not {want}");
    }

    #[test]
    fn clarks_predictions_come_out() {
        let clark = |id: &str| fact(&format!("clark-1989/{id}"));
        let each = execution_ns(clark("path-risc"), clark("processor-rate") * 1e6);
        near(each / 1e3, clark("predicted-packet-time"), 1e-9);
        let rate = rate(each);
        near(rate, clark("predicted-packet-rate"), 1e-6);
        let size = clark("predicted-packet-size");
        near(
            throughput_bits(rate, size, 1.0) / 1e6,
            clark("predicted-throughput"),
            1e-6,
        );
        let of_data = clark("data-packets-in-three") / 3.0;
        // The paper says "530": two thirds of 800 are 533.
        near(
            throughput_bits(rate, size, of_data) / 1e6,
            clark("predicted-throughput-with-acks"),
            5.0,
        );
        let line = clark("fddi-bandwidth") * 1e6;
        near(
            smallest_packet(line, rate),
            clark("predicted-smallest-packet"),
            1e-9,
        );
        let bandwidth = clark("memory-width") / 8.0 / (clark("memory-cycle") * 1e-9);
        near(
            memory_limit_bits(bandwidth, clark("memory-cycles-per-word")) / 1e6,
            clark("predicted-memory-limit"),
            1e-9,
        );
    }

    #[test]
    fn lehmann_and_benzs_budget_comes_out() {
        let lehmann = |id: &str| fact(&format!("lehmann-benz-2002/{id}"));
        let line = lehmann("gigabit-bytes") * 8.0;
        let budget = budget_ns(lehmann("gigabit-frame"), line);
        near(budget / 1e3, lehmann("gigabit-budget"), 0.005);
        near(rate(budget), lehmann("gigabit-packets"), 1.0);
    }

    #[test]
    fn foongs_rule_comes_out() {
        let foong = |id: &str| fact(&format!("foong-2003/{id}"));
        // "1GHz/1Gbps": a processor that is all busy at 1 GHz with 1 Gb/s.
        near(hz_per_bit(1.0, 1e9, 1e9), foong("rule-of-thumb"), 1e-12);
        // Their base machine all busy at their best throughput, and what the next link would take of it by the rule.
        let clock = foong("clock-base") * 1e6;
        near(
            hz_per_bit(1.0, clock, foong("throughput") * 1e6),
            2.67,
            0.005,
        );
        near(
            cores(foong("rule-of-thumb"), foong("next-link") * 1e9, clock),
            4.17,
            0.005,
        );
    }

    #[test]
    fn packets_are_cut_at_the_segments_size() {
        let mss = fact("lehmann-benz-2002/segment");
        let response = fact("lehmann-benz-2002/queue-response-small");
        assert_eq!(
            packets(response, mss),
            fact("lehmann-benz-2002/queue-response-small-packets")
        );
        assert_eq!(packets(0.0, mss), 1.0);
        assert_eq!((packets(1448.0, mss), packets(1449.0, mss)), (1.0, 2.0));
    }

    #[test]
    fn a_line_is_filled_by_messages_or_never() {
        // 8 ns a byte at 1 Gb/s: 100 ns for a message and 3 for a byte leave 20 bytes to make up for it.
        near(smallest_message(1e9, 100.0, 3.0).unwrap(), 20.0, 1e-9);
        assert_eq!(smallest_message(1e9, 100.0, 8.0), None);
    }
}
