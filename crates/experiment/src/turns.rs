//! Short operations that take turns: how long one of each takes, told from rounds.
//!
//! A round makes what an operation works on anew, since where memory lies stays for life, and then repeats the operation for a slice
//! of time. It must never know what an operation does.

use std::time::{Duration, Instant};

use tollgate_run::{Axis, Cell, Figure, Measured, Placement, Point, Scale, Series, Unit};
use tollgate_stats as stats;
use tollgate_workload::cores::{Cores, Pinned};
use tollgate_workload::now_ns;

use crate::claim::{Claim, Evidence, Refusal};
use crate::context::{Context, REPETITIONS};
use crate::error::Error;
use crate::order::Order;

/// Repeats an operation so many times.
pub(crate) type Repeat<'a> = Box<dyn FnMut(u64) + 'a>;

/// An operation: makes what it works on, or says why it cannot.
pub(crate) struct Operation<'a> {
    /// The name of the operation, for the progress.
    pub(crate) label: String,
    /// Makes it anew.
    pub(crate) make: Box<dyn Fn() -> Result<Repeat<'a>, String> + 'a>,
}

/// Duration of a slice of an operation, when nobody is in a hurry.
const SLICE: Duration = Duration::from_millis(4);
/// The shortest slice, however little time there is.
const LEAST: Duration = Duration::from_micros(50);
/// Rounds for each of the repetitions that the options give.
const ROUNDS: u32 = 2;
/// Rounds that are always made, so that there is an interval.
const ALWAYS: u32 = 2;

/// Times of an operation, by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds {
    /// Nanoseconds for one, by round; none of a round in which it could not be made.
    pub(crate) ns: Vec<Option<f64>>,
    /// Operations of all rounds.
    pub(crate) operations: u64,
    /// The reason why it could not be made.
    failure: Option<String>,
}

impl Rounds {
    /// The rounds in which both have a time.
    fn pairs(&self, other: &Self) -> impl Iterator<Item = Option<(f64, f64)>> {
        let pairs = self.ns.iter().zip(&other.ns);
        pairs.map(|(one, other)| one.zip(*other))
    }

    /// A number of each round, of two operations that took turns.
    pub(crate) fn each(&self, other: &Self, number: impl Fn(f64, f64) -> f64) -> Self {
        let numbers = self.pairs(other).map(|pair| {
            let (one, other) = pair?;
            Some(number(one, other))
        });
        Self {
            ns: numbers.collect(),
            operations: self.operations.min(other.operations),
            failure: self.failure.clone().or_else(|| other.failure.clone()),
        }
    }

    /// The median over the rounds as a cell.
    pub(crate) fn cell(&self) -> Cell {
        let mut known: Vec<f64> = self.ns.iter().flatten().copied().collect();
        known.sort_by(f64::total_cmp);
        let Some(value) = stats::middle(&known) else {
            let stopped = || "the run was stopped before it came to this".to_owned();
            return Cell::NotAvailable {
                reason: self.failure.clone().unwrap_or_else(stopped),
            };
        };
        Cell::Value(Measured {
            value,
            ci: stats::median_of_few(&known)
                .ok()
                .map(|median| median.interval.into()),
            n: Some(self.operations),
            ..Measured::default()
        })
    }

    /// The claim on what it takes of what the other takes.
    pub(crate) fn ratio(&self, other: &Self) -> Result<Claim, Refusal> {
        let operations = self.operations.min(other.operations);
        let (own, other): (Vec<f64>, Vec<f64>) = self.pairs(other).flatten().unzip();
        Evidence::quotient(&own, &other, operations).and_then(Evidence::amount)
    }

    /// The share of the other's time that this one saves, in hundredths, by round.
    pub(crate) fn saved_of(&self, other: &Self) -> Self {
        self.each(other, |own, other| 100.0 * (1.0 - own / other))
    }
}

/// A line through the cells that have a number; none where no cell has.
pub(crate) fn line(label: &str, at: &[usize], cells: impl Iterator<Item = Cell>) -> Option<Series> {
    let points = at.iter().zip(cells).filter_map(|(&x, cell)| {
        let measured = cell.measured()?;
        Some(Point {
            x: x as f64,
            y: measured.value,
            ci: measured.ci,
        })
    });
    let points: Vec<Point> = points.collect();
    (!points.is_empty()).then(|| Series {
        label: label.to_owned(),
        points,
        published: false,
    })
}

/// Lines on logarithmic axes.
pub(crate) fn figure(
    title: &str,
    x: (&str, Unit),
    y: (&str, Unit),
    series: Vec<Series>,
    command: &str,
) -> Figure {
    let axis = |(label, unit): (&str, Unit)| Axis {
        label: label.to_owned(),
        unit,
        scale: Scale::Log,
    };
    Figure::Lines {
        title: title.to_owned(),
        x: axis(x),
        y: axis(y),
        series,
        command: command.to_owned(),
    }
}

/// Measures operations in turns.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before all of them had a round.
pub(crate) fn measure(
    operations: &[Operation<'_>],
    context: &Context<'_>,
) -> Result<Vec<Rounds>, Error> {
    let rounds = context.options.repetitions.unwrap_or(REPETITIONS).max(1) * ROUNDS;
    let mut taken = vec![Rounds::default(); operations.len()];
    // Where it cannot be pinned it runs where the system puts it.
    let _pinned = Cores::choose(Placement::OneCore)
        .ok()
        .and_then(|cores| Pinned::to(cores.client).ok());
    let begun = Instant::now();
    let mut order = Order::new();
    for round in 0..rounds {
        let left = context.remaining();
        if round >= ALWAYS && left == Some(Duration::ZERO) {
            break;
        }
        let turns = (rounds - round) * operations.len().max(1) as u32;
        for place in order.of(operations.len()) {
            let operation = &operations[place];
            if context.cancel.is_raised() {
                return match taken.iter().all(|one| one.ns.is_empty()) {
                    true => Err(Error::Stopped),
                    false => Ok(taken),
                };
            }
            let spent = begun.elapsed() / (round + 1);
            context.tell(&operation.label, spent * (rounds - round));
            let slice = left.map_or(SLICE, |left| (left / turns / 3).clamp(LEAST, SLICE));
            let one = &mut taken[place];
            match (operation.make)() {
                Err(reason) => {
                    one.ns.push(None);
                    one.failure = Some(reason);
                }
                Ok(mut repeat) => {
                    let (ns, count) = one_round(&mut *repeat, slice, context.options.iterations);
                    one.ns.push(Some(ns));
                    one.operations += count;
                }
            }
        }
    }
    Ok(taken)
}

/// The most operations in one slice.
const MOST: u64 = 1 << 24;

/// Parts of a slice, of which the median counts: a processor that is taken away in one of them does not move it.
const PARTS: u64 = 5;

/// Repeats an operation for about a slice: what one takes in nanoseconds, and how many there were.
fn one_round(repeat: &mut dyn FnMut(u64), slice: Duration, wanted: Option<u64>) -> (f64, u64) {
    let mut timed = |count: u64| {
        let begun = now_ns();
        repeat(count);
        now_ns().saturating_sub(begun).max(1) as f64
    };
    if let Some(count) = wanted {
        let count = count.max(1);
        timed(count.min(8));
        return (timed(count) / count as f64, count);
    }
    let slice = slice.as_nanos() as f64;
    // Caches are warm and the cost is known when a trial has taken a tenth of the slice.
    let mut count = 1;
    let cost = loop {
        let took = timed(count);
        if took >= slice / 10.0 || count >= MOST {
            break took / count as f64;
        }
        count *= 2;
    };
    let count = ((slice / cost) as u64 / PARTS).clamp(1, MOST);
    let mut parts: Vec<f64> = (0..PARTS).map(|_| timed(count) / count as f64).collect();
    parts.sort_by(f64::total_cmp);
    (stats::middle(&parts).unwrap_or(cost), PARTS * count)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Counter;

    use super::*;
    use crate::context::{Cancel, Options, Silent};

    fn rounds(ns: &[f64]) -> Rounds {
        Rounds {
            ns: ns.iter().copied().map(Some).collect(),
            operations: 4_000,
            failure: None,
        }
    }

    #[test]
    fn every_round_makes_the_operation_anew() {
        let (made, done) = (Counter::new(0), Counter::new(0));
        let operation = Operation {
            label: "count".to_owned(),
            make: Box::new(|| {
                made.set(made.get() + 1);
                Ok(Box::new(|count| done.set(done.get() + count)))
            }),
        };
        let options = Options {
            iterations: Some(100),
            repetitions: Some(3),
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        let taken = measure(&[operation], &context).unwrap();
        assert_eq!((made.get(), done.get()), (6, 6 * 108));
        assert_eq!((taken[0].ns.len(), taken[0].operations), (6, 600));
        assert!(taken[0].cell().measured().unwrap().ci.is_some());
    }

    #[test]
    fn what_cannot_be_made_says_why() {
        let operation = Operation {
            label: "none".to_owned(),
            make: Box::new(|| Err("no memory".to_owned())),
        };
        let context = Context::new(Options::default(), None, Cancel::default(), &Silent);
        let taken = measure(&[operation], &context).unwrap();
        let reason = "no memory".to_owned();
        assert_eq!(taken[0].cell(), Cell::NotAvailable { reason });
    }

    /// One that cannot be made in the second of six rounds, as where memory is short for a while.
    #[test]
    fn rounds_are_paired_by_their_number_where_one_failed() {
        let made = Counter::new(0);
        let fails_once = Operation {
            label: "fails once".to_owned(),
            make: Box::new(|| {
                made.set(made.get() + 1);
                match made.get() {
                    2 => Err("no memory".to_owned()),
                    _ => Ok(Box::new(|_| ())),
                }
            }),
        };
        let options = Options {
            iterations: Some(10),
            repetitions: Some(3),
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        let taken = measure(&[fails_once], &context).unwrap();
        let has_time: Vec<bool> = taken[0].ns.iter().map(Option::is_some).collect();
        assert_eq!(has_time, [true, false, true, true, true, true]);

        // The machine becomes slower: the saving of each round is 40 %.
        let mut own = rounds(&[60.0, 66.0, 120.0, 180.0]);
        own.ns[1] = None;
        let other = rounds(&[100.0, 110.0, 200.0, 300.0]);
        let saved = own.saved_of(&other);
        let known: Vec<f64> = saved.ns.iter().flatten().copied().collect();
        assert_eq!(known.len(), 3);
        assert!(known.iter().all(|saved| (saved - 40.0).abs() < 1e-9));
        assert!((own.ratio(&other).unwrap().value() - 0.6).abs() < 1e-9);
    }

    #[test]
    fn operations_take_turns_in_orders_that_differ() {
        let firsts = std::cell::RefCell::new(Vec::new());
        let operation = |name: usize| Operation {
            label: name.to_string(),
            make: Box::new({
                let firsts = &firsts;
                move || {
                    firsts.borrow_mut().push(name);
                    Ok(Box::new(|_| ()))
                }
            }),
        };
        let options = Options {
            iterations: Some(1),
            repetitions: Some(10),
            ..Options::default()
        };
        let context = Context::new(options, None, Cancel::default(), &Silent);
        measure(&[operation(0), operation(1)], &context).unwrap();
        let turns = firsts.borrow();
        let firsts = turns.chunks(2).filter(|round| round[0] == 0).count();
        assert!((5..=15).contains(&firsts), "{firsts} of 20");
    }

    #[test]
    fn a_stop_before_the_first_round_is_an_error() {
        let cancel = Cancel::default();
        cancel.raise();
        let context = Context::new(Options::default(), None, cancel, &Silent);
        let operation = Operation {
            label: "none".to_owned(),
            make: Box::new(|| Ok(Box::new(|_| ()))),
        };
        assert!(matches!(
            measure(&[operation], &context),
            Err(Error::Stopped)
        ));
    }

    #[test]
    fn a_saving_is_told_from_rounds_that_took_turns() {
        let (own, other) = (rounds(&[60.0, 66.0]), rounds(&[100.0, 110.0]));
        let saved = own.saved_of(&other).cell();
        let saved = saved.measured().unwrap();
        assert!((saved.value - 40.0).abs() < 1e-9);
        assert!((own.ratio(&other).unwrap().value() - 0.6).abs() < 1e-9);
    }
}
