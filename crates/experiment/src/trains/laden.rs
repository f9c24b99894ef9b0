//! How much slower the gates of a slice make everything but themselves.
//!
//! What gates push out of caches and predictors is missed all over the round trip, and a span has its share of that. So has it of what
//! disturbs a slice: with a packet for each segment nearly all of a response lies in one span, and a machine that is slower for the
//! few round trips of one slice would leave the sum of the spans as much too long. Both show in the slice's own round trips: those with
//! gates, less what the passages in them cost, over what round trips without gates usually take at that size. By so many times is
//! divided what the slice saw, at every size and in every slice alike.
//!
//! Only ratios of round trips are looked at here, so nothing makes a sum of spans that leave out a part of the way come out whole; it
//! must never look at a span.

use tollgate_gate::Gate;

/// Messages of a round trip, of each of which a packet comes first.
const MESSAGES: f64 = 2.0;

/// What passages of a gate cost, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Price {
    /// Each, where it finds its things warm, as those behind the first packet of a message do: what twins show.
    pub(super) each_ns: f64,
    /// The first one beyond that.
    pub(super) first_ns: f64,
}

impl Price {
    /// What these passages cost, of which the first is that of a message's first packet when that is said.
    pub(super) fn of(
        passages: impl Iterator<Item = Gate>,
        first: bool,
        price: impl Fn(Gate) -> Self,
    ) -> f64 {
        let prices = passages.map(price);
        prices.enumerate().fold(0.0, |sum, (at, price)| {
            let beyond = if first && at == 0 {
                price.first_ns
            } else {
                0.0
            };
            sum + price.each_ns + beyond
        })
    }
}

/// The round trips of a slice with gates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Laden {
    /// The mean of the usual ones, in nanoseconds.
    pub(super) round_trip_ns: f64,
    /// How often each gate was passed in one.
    pub(super) passages: Vec<(Gate, f64)>,
}

impl Laden {
    /// The same on a machine that is not as slow.
    pub(super) fn faster(&mut self, slowness: f64) {
        self.round_trip_ns /= slowness;
    }

    /// How many times as long everything but the gates themselves took as it usually does without them, in so many nanoseconds; none
    /// where the price of a gate is not known, or nothing would be left.
    pub(super) fn slowed(
        &self,
        ungated_ns: f64,
        price: impl Fn(Gate) -> Option<Price>,
    ) -> Option<f64> {
        let costs = self.passages.iter().map(|&(gate, passages)| {
            let Price { each_ns, first_ns } = price(gate)?;
            Some(passages * each_ns + MESSAGES * first_ns)
        });
        let slowed = (self.round_trip_ns - costs.sum::<Option<f64>>()?) / ungated_ns;
        (slowed.is_finite() && slowed > 0.0).then_some(slowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laden() -> Laden {
        Laden {
            round_trip_ns: 1_340.0,
            passages: vec![(Gate::IpInBegin, 3.0), (Gate::DemuxBegin, 4.0)],
        }
    }

    #[test]
    fn what_gates_cost_themselves_makes_nothing_slower() {
        let price = |_| {
            Some(Price {
                each_ns: 20.0,
                first_ns: 25.0,
            })
        };
        // Seven passages, and what is dearer of two at each gate.
        let own = 7.0 * 20.0 + 4.0 * 25.0;
        assert_eq!(laden().slowed(1_340.0 - own, price), Some(1.0));
        assert_eq!(laden().slowed(1_000.0, price), Some(1.1));
        let mut slow = laden();
        slow.faster(2.0);
        assert_eq!(slow.round_trip_ns, 670.0);
    }

    #[test]
    fn each_passage_has_the_price_of_its_gate() {
        let price = |gate| match gate {
            Gate::TcpOutBegin => Price {
                each_ns: 150.0,
                first_ns: 5.0,
            },
            _ => Price {
                each_ns: 120.0,
                first_ns: 40.0,
            },
        };
        let passed = [Gate::TcpOutBegin, Gate::IpOutBegin, Gate::TcpOutBegin];
        assert_eq!(Price::of(passed.into_iter(), false, price), 420.0);
        assert_eq!(Price::of(passed.into_iter(), true, price), 425.0);
        assert_eq!(Price::of(std::iter::empty(), true, price), 0.0);
    }

    #[test]
    fn nothing_is_told_without_a_price_or_a_round_trip() {
        let one = |gate| (gate == Gate::IpInBegin).then(Price::default);
        assert_eq!(laden().slowed(1_000.0, one), None);
        let free = |_| Some(Price::default());
        assert_eq!(laden().slowed(0.0, free), None);
        let dear = |_| {
            Some(Price {
                each_ns: 1_000.0,
                first_ns: 0.0,
            })
        };
        assert_eq!(laden().slowed(1_000.0, dear), None);
    }
}
