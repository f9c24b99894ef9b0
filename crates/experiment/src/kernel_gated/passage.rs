//! What a passage of a gate costs in the run.
//!
//! A twin shows what a program costs that has just run behind another on its hook: its code, the headers it reads and the memory it
//! writes are warm, and the hook has been entered already. Where a gate stands it is otherwise. A span begins with a gate that finds
//! its things cold, and ends with one that finds them warm from the first; what comes behind the reading of the clock at the one and
//! before it at the other is in the span. The same two parts are what a gate adds to the way from the call that sends, which stamps
//! itself and takes no program, to the gate behind it:
//!
//! | gates | what it holds beside the way |
//! |---|---|
//! | the call, the gate, the next one | all of the gate, cold; the next one up to its clock, warm |
//! | the call, the next one | the next one up to its clock, cold |
//!
//! What lies behind the next gate has the same gates in both, so it tells how much slower the machine was in one of the two slices. By
//! how much the first is longer is what comes behind the clock at a cold gate and before it at a warm one, so far as gates are alike
//! in what they find cold. No slice carries more programs than that of a span does. A single crossing tells it poorly, so that its sum
//! against what the twins show is one number for a run and a kind of hook, pooled over gates and sizes.
//!
//! Round trips without gates take no part in this: the sum of the spans is still held against a total that knows nothing of what is subtracted.
//! It owns what a passage costs; it must never look at that total.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, GateSet, SpanTable, TickScale};
use tollgate_kernel::{Need, Plan};
use tollgate_stats::interquartile;

use super::usual::{self, Trip};
use crate::words;

/// Where the way begins that gates are crossed on.
const FROM: Gate = Gate::SocketOutBegin;

/// A gate that is crossed, and the one behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossing {
    pub(super) gate: Gate,
    pub(super) to: Gate,
}

/// The gates within the way out that programs take. What we stamp ourselves in a call costs a reading of the clock, of which a twin tells
/// more than a difference of times; what the kernel stamps for a socket costs nobody else anything. There are none where the way
/// begins with a program, too.
pub(super) fn crossings(table: SpanTable, plan: &Plan) -> Vec<Crossing> {
    let takes_program = |gate| plan.hook(gate).is_some_and(|hook| hook.program.is_some());
    let spans = table.spans().iter();
    let on_the_way: Vec<_> = spans.filter(|span| span.place == Place::OnTheWay).collect();
    if on_the_way.first().is_none_or(|span| span.from != FROM) || takes_program(FROM) {
        return Vec::new();
    }
    on_the_way
        .windows(2)
        .filter(|two| two[1].direction == Direction::Tx && takes_program(two[1].from))
        .map(|two| Crossing {
            gate: two[1].from,
            to: two[1].to,
        })
        .collect()
}

impl Crossing {
    /// The gates of the two slices.
    pub(super) const fn slices(&self) -> [GateSet; 2] {
        [
            GateSet::of(&[FROM, self.gate, self.to]),
            GateSet::of(&[FROM, self.to]),
        ]
    }

    /// What the usual round trips of a slice between two gates took.
    pub(super) fn took(
        &self,
        usual: impl FnOnce((Gate, Gate)) -> Vec<Trip>,
        scale: TickScale,
    ) -> Option<Took> {
        let ends = (FROM, self.to);
        let usual = usual(ends);
        let way_ns = usual::mean_ns(&usual, ends, scale)?;
        Some(Took {
            way_ns,
            rest_ns: usual::whole_ns(&usual)? - way_ns,
        })
    }

    /// What the gate cost, by what was taken in the two slices; none when one of them saw nothing, or its twin was not seen. The rest of
    /// the round trips, in which both slices have the same gates, tells how much slower the machine was in one of them.
    pub(super) fn crossed(
        &self,
        [with, without]: [Option<Took>; 2],
        by_twins_ns: f64,
    ) -> Option<Crossed> {
        let (with, without) = (with?, without?);
        let by_ns = with.way_ns * without.rest_ns / with.rest_ns - without.way_ns;
        (by_twins_ns > 0.0 && by_ns.is_finite()).then_some(Crossed {
            gate: self.gate,
            by_ns,
            by_twins_ns,
        })
    }
}

/// What the usual round trips of a slice took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Took {
    /// Both messages, from the call that sends to the gate behind.
    pub(super) way_ns: f64,
    /// All else of the round trip.
    pub(super) rest_ns: f64,
}

/// What a gate cost where it stands, in nanoseconds for both messages of a round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Crossed {
    pub(super) gate: Gate,
    /// As it was measured.
    pub(super) by_ns: f64,
    /// As the gate's twin would have it.
    pub(super) by_twins_ns: f64,
}

/// What passages of gates cost against what their twins show.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct InPlace {
    kinds: Vec<OfKind>,
    /// What a passage costs by its twin, in nanoseconds.
    by_twins: BTreeMap<Gate, f64>,
}

/// The same for one kind of hook.
#[derive(Debug, Clone, PartialEq)]
struct OfKind {
    /// What its hooks need; of its fields nothing counts.
    need: Need,
    gates: Vec<Gate>,
    factor: f64,
    /// The same without one of the rounds.
    without: Vec<f64>,
}

impl InPlace {
    /// From the crossings of each round. A kind of which a round more or less decides whether there is anything to tell it from
    /// stays with what its twins show.
    pub(super) fn of(rounds: &[Vec<Crossed>], plan: &Plan, by_twins: BTreeMap<Gate, f64>) -> Self {
        let mut kinds: Vec<(Discriminant<Need>, Need, Vec<Gate>)> = Vec::new();
        for boundary in plan.boundaries() {
            let Some(hook) = boundary.hook else { continue };
            let kind = discriminant(&hook.need);
            match kinds.iter_mut().find(|(known, ..)| *known == kind) {
                Some((.., gates)) => gates.push(boundary.gate),
                None => kinds.push((kind, hook.need, vec![boundary.gate])),
            }
        }
        let kinds = kinds.into_iter();
        Self {
            kinds: kinds
                .filter_map(|(_, need, gates)| OfKind::of(rounds, need, gates))
                .collect(),
            by_twins,
        }
    }

    /// As all rounds have it.
    pub(super) const fn prices(&self) -> Prices<'_> {
        Prices {
            in_place: self,
            without: None,
        }
    }

    /// The same without one of the rounds.
    pub(super) const fn prices_without(&self, round: usize) -> Prices<'_> {
        Prices {
            in_place: self,
            without: Some(round),
        }
    }

    /// What a passage of each gate costs by its twin, in nanoseconds.
    pub(crate) const fn by_twins(&self) -> &BTreeMap<Gate, f64> {
        &self.by_twins
    }

    /// How many times what twins show it is, by kind of hook, in words; none where nothing is known.
    pub(crate) fn told(&self) -> Option<String> {
        let kinds = self.kinds.iter();
        let kinds: Vec<String> = kinds
            .map(|kind| format!("{:.2} times that {}", kind.factor, place_of(kind.need)))
            .collect();
        (!kinds.is_empty()).then(|| words::list(&kinds))
    }
}

/// Where a gate with such a hook stands, in words.
const fn place_of(need: Need) -> &'static str {
    match need {
        Need::Tracepoint(_) => "at a tracepoint",
        Need::Netfilter(_) => "at a netfilter hook",
        Need::Function(_) => "at the entry of a function",
        Need::OwnCall => "around a call of our own",
        Need::OwnSocket => "at a stamp of a socket",
    }
}

/// What a passage costs, as all rounds have it or all but one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices<'a> {
    in_place: &'a InPlace,
    without: Option<usize>,
}

impl Prices<'_> {
    /// How many times what its twin shows.
    pub(super) fn factor(&self, gate: Gate) -> f64 {
        let mut kinds = self.in_place.kinds.iter();
        kinds
            .find(|kind| kind.gates.contains(&gate))
            .map_or(1.0, |kind| {
                let without = self.without.and_then(|round| kind.without.get(round));
                without.copied().unwrap_or(kind.factor)
            })
    }

    /// In nanoseconds; none where no twin was measured.
    pub(super) fn cost_ns(&self, gate: Gate) -> Option<f64> {
        let by_twin = self.in_place.by_twins.get(&gate);
        by_twin.map(|ns| ns * self.factor(gate))
    }
}

impl OfKind {
    fn of(rounds: &[Vec<Crossed>], need: Need, gates: Vec<Gate>) -> Option<Self> {
        let leaving_out = |left_out: Option<usize>| {
            let rounds = rounds.iter().enumerate();
            let kept = rounds.filter(|(at, _)| Some(*at) != left_out);
            let crossed = kept.flat_map(|(_, crossed)| crossed);
            factor(
                crossed
                    .filter(|crossed| gates.contains(&crossed.gate))
                    .copied(),
            )
        };
        Some(Self {
            factor: leaving_out(None)?,
            without: (0..rounds.len())
                .map(|at| leaving_out(Some(at)))
                .collect::<Option<_>>()?,
            need,
            gates,
        })
    }
}

/// Of the crossings that are usual for the run; a disturbed one would count for dozens of the others.
fn factor(crossed: impl Iterator<Item = Crossed>) -> Option<f64> {
    let usual = interquartile(crossed.collect(), |crossed| {
        crossed.by_ns / crossed.by_twins_ns
    });
    let by: f64 = usual.iter().map(|crossed| crossed.by_ns).sum();
    let by_twins: f64 = usual.iter().map(|crossed| crossed.by_twins_ns).sum();
    Some(by / by_twins).filter(|factor| factor.is_finite())
}

#[cfg(test)]
mod tests {
    use tollgate_gate::KERNEL;
    use tollgate_kernel::{Abilities, Ability, Traffic};

    use super::*;

    /// A kernel with netfilter's hooks, and calls of our own.
    fn plan() -> Plan {
        let abilities = Abilities {
            netfilter: Ability::Works,
            clock: Ability::Works,
            ..Abilities::none("not looked for")
        };
        Plan::choose(&abilities, Traffic::Ours)
    }

    const fn crossed(gate: Gate, by_ns: f64) -> Crossed {
        Crossed {
            gate,
            by_ns,
            by_twins_ns: 200.0,
        }
    }

    #[test]
    fn gates_on_the_way_out_are_crossed() {
        let all = crossings(KERNEL, &plan());
        assert_eq!(
            all,
            [Crossing {
                gate: Gate::IpOutBegin,
                to: Gate::DeviceQueueIn,
            }]
        );
        assert!(all[0].slices().iter().all(|gates| gates.contains(FROM)));
        let unprivileged = Abilities {
            clock: Ability::Works,
            sockets: Ability::Works,
            ..Abilities::none("not root")
        };
        let unprivileged = Plan::choose(&unprivileged, Traffic::Ours);
        let table = unprivileged.table(GateSet::EMPTY).unwrap();
        assert_eq!(crossings(table, &unprivileged), []);
        let one = KERNEL.joined(GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd]));
        assert_eq!(one.map(|one| crossings(one, &plan())), Some(Vec::new()));
        let later = KERNEL.joined(GateSet::of(&[
            Gate::TcpOutBegin,
            Gate::IpOutBegin,
            Gate::DeviceQueueIn,
        ]));
        assert_eq!(
            later.map(|later| crossings(later, &plan())),
            Some(Vec::new())
        );
    }

    #[test]
    fn a_gate_costs_what_it_adds_to_the_way_across_it() {
        let crossing = Crossing {
            gate: Gate::IpOutBegin,
            to: Gate::DeviceQueueIn,
        };
        let took = |way_ns, rest_ns| Some(Took { way_ns, rest_ns });
        let slices = [took(1_340.0, 9_000.0), took(1_000.0, 9_000.0)];
        let crossed = crossing.crossed(slices, 200.0).unwrap();
        assert_eq!((crossed.by_ns, crossed.by_twins_ns), (340.0, 200.0));
        // The machine was slower by a fifth in the first.
        let drifted = [took(1_608.0, 10_800.0), took(1_000.0, 9_000.0)];
        let crossed = crossing.crossed(drifted, 200.0).unwrap();
        assert!((crossed.by_ns - 340.0).abs() < 1e-9);
        assert_eq!(crossing.crossed(slices, 0.0), None);
        assert_eq!(crossing.crossed([slices[0], None], 200.0), None);
    }

    #[test]
    fn a_disturbed_crossing_does_not_count() {
        let usual = [240.0, 250.0, 260.0, 250.0].map(|ns| crossed(Gate::IpOutBegin, ns));
        let mut rounds = vec![usual.to_vec(); 4];
        let factor = |rounds: &[Vec<Crossed>], without| {
            let cost = InPlace::of(rounds, &plan(), BTreeMap::new());
            Prices {
                in_place: &cost,
                without,
            }
            .factor(Gate::DemuxBegin)
        };
        assert_eq!(factor(&rounds, None), 1.25);
        rounds[2][1].by_ns = 1e6;
        assert!((factor(&rounds, None) - 1.25).abs() < 0.01);
        assert!((factor(&rounds, Some(2)) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn each_kind_of_hook_has_its_own() {
        let round = vec![
            crossed(Gate::IpOutBegin, 260.0),
            crossed(Gate::SocketInEnd, 180.0),
        ];
        let by_twins = BTreeMap::from([(Gate::DemuxBegin, 100.0)]);
        let cost = InPlace::of(&vec![round; 3], &plan(), by_twins);
        assert_eq!(cost.prices().cost_ns(Gate::DemuxBegin), Some(130.0));
        assert_eq!(cost.prices().factor(Gate::SocketOutBegin), 0.9);
        assert_eq!(cost.prices().cost_ns(Gate::SocketOutBegin), None);
        let told = cost.told().unwrap();
        assert!(
            told.contains("1.30 times that at a netfilter hook"),
            "{told}"
        );
        assert!(
            told.contains("0.90 times that around a call of our own"),
            "{told}"
        );
    }

    #[test]
    fn one_round_tells_nothing() {
        let crossed = vec![crossed(Gate::IpOutBegin, 300.0)];
        for rounds in [vec![crossed.clone()], Vec::new(), vec![crossed, Vec::new()]] {
            let cost = InPlace::of(&rounds, &plan(), BTreeMap::new());
            assert_eq!(cost.told(), None);
            assert_eq!(cost.prices().factor(Gate::IpOutBegin), 1.0);
        }
    }
}
