//! What a passage of a gate costs, measured in place.

use tollgate_gate::record::{ProbeCost, twin_cost};
use tollgate_gate::{PacketId, TickScale};

use crate::event::Event;

/// The cost of a passage from what a gate and its twin recorded ([`crate::Gates::attach_twins`]); none when no passage was
/// seen. A passage is an event of the gate with one of its twin right behind it on the same processor, both of the same bytes:
/// where programs are called in another order, a twin comes before its gate, and behind the gate of the message before.
pub fn passage_cost(events: &[Event]) -> Option<ProbeCost> {
    let mut pairs = Vec::new();
    for (first, second) in events.iter().zip(events.iter().skip(1)) {
        let same = first.cpu == second.cpu
            && first.gate() == second.gate()
            && (first.ports, first.addresses, first.seq)
                == (second.ports, second.addresses, second.seq);
        if same
            && !first.is_twin()
            && second.is_twin()
            && let Some(gate) = first.gate()
        {
            let packet = PacketId(pairs.len() as u32 / 2);
            pairs.extend([first, second].map(|event| tollgate_gate::Event {
                ticks: event.ticks(),
                packet,
                gate,
            }));
        }
    }
    twin_cost(&pairs, TickScale::NANOSECONDS)
}

#[cfg(test)]
mod tests {
    use tollgate_gate::Gate;

    use super::*;

    #[test]
    fn a_twin_of_other_bytes_is_of_another_passage() {
        let flow = crate::event::Flow {
            ports: 1,
            addresses: 2,
        };
        let gate = |ktime, seq| Event::of_packet(ktime, Gate::IpOutBegin, flow, seq, 10);
        let twin = |ktime, seq| gate(ktime, seq).as_twin();
        let events = [twin(100, 0), gate(190, 0), twin(9_100, 10), gate(9_190, 10)];
        assert_eq!(passage_cost(&events), None);
        let events = [gate(100, 0), twin(190, 0), gate(9_100, 10), twin(9_190, 10)];
        assert_eq!(passage_cost(&events).map(|cost| cost.n), Some(2));
    }

    #[test]
    fn a_passage_is_a_gate_and_its_twin_on_one_processor() {
        let gate = |ktime| Event::of_thread(ktime, Gate::ReaderRuns, 7);
        let twin = |ktime| gate(ktime).as_twin();
        let elsewhere = |mut event: Event| {
            event.cpu = 1;
            event
        };
        let events = [
            gate(100),
            twin(190),
            gate(300),
            twin(370),
            gate(500),
            elsewhere(twin(501)),
            gate(700),
            gate(900),
            twin(980),
            twin(990),
        ];
        let cost = passage_cost(&events).unwrap();
        assert_eq!((cost.median_ns, cost.n), (80.0, 3));
        assert_eq!(passage_cost(&events[..1]), None);
    }
}
