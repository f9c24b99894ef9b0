//! Faults that are known, and what the ledger shows of them: delays behind gates, and gates that cost more than they have to.
//!
//! The delays and a control without any take turns, block by block in random order, so drift falls on all alike. Of each delay
//! three things are told: its length by itself, by how much the round trip without gates grew, and by how much each span grew. The
//! span behind the gate has to grow by the first at least, and by the second at most: what else the delay costs, such as its program
//! or what the processor could not do beside it, lies somewhere in the round trip. Gates have no part in either.
//!
//! It must never leave a delay behind.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tollgate_gate::Gate;
use tollgate_gate::delay::Wait;
use tollgate_workload::gate_clock;
use tollgate_workload::stack_gates::Fault;

use crate::gated::{self, Amount, Gated, Sized};
use crate::ledger::{Closure, Figure, Ledger, NoLedger};
use crate::schedule::Probes;

/// Ends whose messages can be held up behind a gate.
pub trait Delayed: Gated {
    /// Holds up each message behind a gate for so many nanoseconds, in slices with gates and without; none is the control. Returns
    /// the length of the delay by itself, in nanoseconds: 0 of the control.
    ///
    /// # Errors
    /// The refusal, for people.
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String>;
}

/// Delays behind gates of our stack. One that is asked for again is the same, so that turns of it are alike.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    /// The requested and the actual length of the last one.
    last: Option<(f64, Wait)>,
}

impl Waits {
    /// The fault of a delay behind a gate; of none, one that nothing passes: code with a delay and without is laid out alike.
    pub(crate) fn fault(&mut self, delay: Option<(Gate, f64)>) -> Fault {
        let (gate, ns) = delay.unwrap_or((Gate::ApplicationEnd, 0.0));
        let wait = match self.last {
            Some((of, wait)) if of == ns => wait,
            _ => Wait::calibrate(gate_clock(), ns),
        };
        self.last = Some((ns, wait));
        Fault { gate, wait }
    }
}

/// Effect of a delay on the ledger. Figures are of a round trip.
#[derive(Clone, Debug)]
pub struct MeasuredDelay {
    /// The gate behind which the delay is.
    pub gate: Gate,
    /// Times that a round trip passes it.
    pub passages: usize,
    /// The length of the delay by itself, in nanoseconds for each message.
    pub alone_ns: f64,
    /// The growth of the round trip without gates.
    pub put_in: Figure,
    /// The growth of the span behind the gate. The unknown part of splits is the same with the delay and without, so it is not in
    /// this interval.
    pub span: Figure,
    /// Half the width of that span's own interval in the ledger with the delay.
    pub half_width: f64,
    /// The other spans that changed by more than their own intervals hold, and by how much.
    pub strayed: Vec<(Gate, Figure)>,
    /// Number of other spans.
    pub others: usize,
    /// The closure with the delay.
    pub closure: Closure,
}

impl MeasuredDelay {
    /// The length of all delays of a round trip by themselves.
    fn all_alone_ns(&self) -> f64 {
        self.passages as f64 * self.alone_ns
    }

    /// Tells whether the round trip without gates grew by the delay, or by the little more that a program or a barrier costs.
    pub fn was_put_in(&self) -> bool {
        let alone = self.all_alone_ns();
        let least = self.put_in.ns - self.put_in.half_width;
        let most = self.put_in.ns + self.put_in.half_width;
        alone <= most && least <= alone * MOST_SHARE + self.passages as f64 * MOST_NS
    }

    /// Tells whether the span grew by the delay at least and by what the round trip without gates grew at most, as far as both
    /// are known. What lies between them is what the processor no longer does beside other work: it falls on any span. A delay
    /// of which the round trip shows less than its length by itself has that as its least. However little is known of the round
    /// trip, less than half of the delay's length by itself is not the delay.
    pub fn is_in_place(&self) -> bool {
        let alone = self.all_alone_ns();
        let uncertainty = self.span.half_width.hypot(self.put_in.half_width);
        let least = self.put_in.ns.min(alone) - uncertainty;
        let least = least.max(LEAST_SHARE * alone - self.span.half_width);
        least <= self.span.ns && self.span.ns <= self.put_in.ns + uncertainty
    }

    /// Tells whether the ledger tells the span well enough: to half of the delay, or to all of it below a microsecond.
    pub fn is_known(&self) -> bool {
        let bar = if self.alone_ns < 1_000.0 { 1.0 } else { 0.5 };
        self.half_width <= bar * self.all_alone_ns()
    }
}

/// The least share of its own length by which a span grows when a delay lies in it.
const LEAST_SHARE: f64 = 0.5;
/// A delay takes at most this much longer than alone, and [`MOST_NS`].
const MOST_SHARE: f64 = 1.1;
/// Nanoseconds for each message: what the program around the delay takes.
const MOST_NS: f64 = 120.0;

/// A delay that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The gate behind which it was put.
    pub gate: Gate,
    /// The effect on the ledger, or the reason why there is no ledger.
    pub shown: Result<MeasuredDelay, NoLedger>,
}

/// Puts a delay of `ns` behind each of these gates in turn, with `amount.least_blocks` blocks for each, at the first size.
///
/// # Errors
/// [`NoLedger`] of the control.
pub fn delays(
    gated: &mut impl Delayed,
    gates: &[Gate],
    ns: f64,
    amount: &Amount,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Vec<Tried>, NoLedger> {
    let mut random = ChaCha8Rng::seed_from_u64(amount.seed);
    let delays = gates.iter().map(|&gate| Some((gate, ns)));
    let mut cases: Vec<Case> = std::iter::once(None)
        .chain(delays)
        .map(|delay| Case {
            delay,
            alone_ns: 0.0,
            sizes: vec![Sized::default(); gated.sizes()],
        })
        .collect();
    for number in 0..amount.least_blocks {
        if !goes_on() {
            break;
        }
        let mut order: Vec<usize> = (0..cases.len()).collect();
        order.shuffle(&mut random);
        for case in order {
            let case = &mut cases[case];
            match gated.delay(case.delay) {
                Ok(alone_ns) => {
                    case.alone_ns = alone_ns;
                    gated::block(gated, amount, number, &mut random, &mut case.sizes);
                }
                Err(reason) => case.sizes[0].failure = Some(reason),
            }
        }
    }
    // What cannot be taken away goes with its owner.
    let _ = gated.delay(None);
    let (control, cases) = cases.split_first().ok_or(NoLedger::Undetermined)?;
    let control = control.sizes[0].ledger(gated, amount.seed)?;
    let tried = cases.iter().zip(gates).map(|(case, &gate)| {
        let with = case.sizes[0].ledger(gated, amount.seed);
        let shown = with.map(|with| shown(&control, &with, gate, case.alone_ns));
        Tried { gate, shown }
    });
    Ok(tried.collect())
}

/// Slices with one delay, or those of the control.
struct Case {
    delay: Option<(Gate, f64)>,
    alone_ns: f64,
    sizes: Vec<Sized>,
}

/// Effect of costlier gates on the ledger, beside a control. Figures are of a round trip.
#[derive(Clone, Debug)]
pub struct Dearer {
    /// The cost of all gates in a round trip, beyond the round trip without them.
    pub perturbation: Figure,
    /// The growth of that.
    pub whole: Figure,
    /// The growth of the part of it that falls on the spans beside the gates.
    pub beside: Figure,
    /// The growth of the part of it that falls elsewhere.
    pub elsewhere: Figure,
    /// The spans that changed by more than their own intervals hold, and by how much.
    pub strayed: Vec<(Gate, Figure)>,
    /// Number of spans.
    pub spans: usize,
    /// The closure with them.
    pub closure: Closure,
}

impl Dearer {
    /// Compares a ledger of dearer gates with that of the control.
    pub fn of(control: &Ledger, dear: &Ledger) -> Self {
        let of_ns = dear.total.ns;
        let gates = dear.way().gates().iter();
        let spans = gates.zip(control.spans.iter().zip(&dear.spans));
        let growths = spans.map(|(&gate, (before, with))| (gate, growth(before, with)));
        Self {
            perturbation: Figure {
                ns: dear.perturbation.ns / of_ns,
                half_width: dear.perturbation.half_width / of_ns,
            },
            whole: growth(&control.perturbation, &dear.perturbation),
            beside: growth(&control.beside(), &dear.beside()),
            elsewhere: growth(&control.elsewhere, &dear.elsewhere),
            strayed: growths
                .filter(|(_, growth)| !growth.contains(0.0))
                .collect(),
            spans: dear.spans.len(),
            closure: dear.closure,
        }
    }
}

/// Runs blocks of several in turn, at their first size, so that drift falls on all alike; the ledger of each.
pub fn in_turn<G: Gated>(
    several: &mut [G],
    amount: &Amount,
    mut goes_on: impl FnMut() -> bool,
) -> Vec<Result<Ledger, NoLedger>> {
    let mut random = ChaCha8Rng::seed_from_u64(amount.seed);
    let sizes = several
        .iter()
        .map(|gated| vec![Sized::default(); gated.sizes()]);
    let mut sizes: Vec<Vec<Sized>> = sizes.collect();
    for number in 0..amount.least_blocks {
        if !goes_on() {
            break;
        }
        for (gated, sizes) in several.iter_mut().zip(&mut sizes) {
            gated::block(gated, amount, number, &mut random, sizes);
            // The others' round trips are to be without these gates.
            if let Err(reason) = gated.enable(Probes::Uninstrumented) {
                sizes[0].failure = Some(reason);
            }
        }
    }
    let ledgers = several.iter().zip(&sizes);
    ledgers
        .map(|(gated, sizes)| sizes[0].ledger(gated, amount.seed))
        .collect()
}

/// Growth of a figure.
fn growth(before: &Figure, with: &Figure) -> Figure {
    Figure {
        ns: with.ns - before.ns,
        half_width: with.half_width.hypot(before.half_width),
    }
}

fn shown(control: &Ledger, with: &Ledger, gate: Gate, alone_ns: f64) -> MeasuredDelay {
    let gates = with.way().gates().iter();
    let spans = control.spans.iter().zip(&with.spans);
    let (mut span, mut half_width) = (growth(&NOTHING, &NOTHING), 0.0);
    let mut strayed = Vec::new();
    for (place, (&one, (before, behind))) in gates.zip(spans).enumerate() {
        if one == gate {
            half_width = behind.half_width;
            span = growth(
                &control.sum_by_chance(&[place]),
                &with.sum_by_chance(&[place]),
            );
        } else {
            let growth = growth(before, behind);
            strayed.extend((!growth.contains(0.0)).then_some((one, growth)));
        }
    }
    MeasuredDelay {
        gate,
        passages: with.way().passages(),
        alone_ns,
        put_in: growth(&control.total, &with.total),
        span,
        half_width,
        strayed,
        others: with.spans.len() - 1,
        closure: with.closure,
    }
}

/// A span that is not there.
const NOTHING: Figure = Figure {
    ns: 0.0,
    half_width: 0.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(put_in: f64, span: f64) -> MeasuredDelay {
        let figure = |ns| Figure {
            ns,
            half_width: 30.0,
        };
        MeasuredDelay {
            gate: Gate::TcpOutBegin,
            passages: 2,
            alone_ns: 300.0,
            put_in: figure(put_in),
            span: figure(span),
            half_width: 60.0,
            strayed: Vec::new(),
            others: 12,
            closure: Closure {
                left: NOTHING,
                of_ns: 4_000.0,
            },
        }
    }

    #[test]
    fn delays_are_in_place_between_their_length_and_the_growth_of_the_round_trip() {
        // 600 ns of delay, 42 ns of uncertainty.
        assert!(shown(600.0, 590.0).is_in_place());
        assert!(shown(580.0, 590.0).is_in_place());
        for elsewhere in [0.0, 540.0, 660.0] {
            assert!(!shown(600.0, elsewhere).is_in_place(), "{elsewhere}");
        }
        // 120 ns more than the delay itself, which lie anywhere.
        for span in [560.0, 600.0, 660.0, 720.0, 760.0] {
            assert!(shown(720.0, span).is_in_place(), "{span}");
        }
        for elsewhere in [0.0, 550.0, 770.0] {
            assert!(!shown(720.0, elsewhere).is_in_place(), "{elsewhere}");
        }
    }

    #[test]
    fn noise_of_the_round_trip_does_not_hide_where_a_delay_lies() {
        let noisy = |span| {
            let mut shown = shown(300.0, span);
            shown.put_in.half_width = 2_000.0;
            shown
        };
        assert!(noisy(600.0).is_in_place());
        assert!(!noisy(30.0).is_in_place());
    }

    #[test]
    fn delays_that_the_round_trip_does_not_show_were_not_put_in() {
        assert!(shown(600.0, 600.0).was_put_in());
        assert!(!shown(560.0, 560.0).was_put_in());
        assert!(!shown(1_000.0, 1_000.0).was_put_in());
    }
}
