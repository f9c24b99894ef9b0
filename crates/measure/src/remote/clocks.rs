//! One-way times between two unsynchronised clocks.
//!
//! A round trip passes four points: out of the client, into the server, out of the server, into the client; the first and the last
//! are read on one clock, the second and the third on another. The time between the hosts *both ways together* is exact, since the
//! clocks' offset falls out of it: (in - out) of the client less (out - in) of the server.
//!
//! One way alone is known within bounds only. No message arrives before it has left; so each message there bounds the offset from
//! above, and each one back from below, by as much as it took. The fastest in both directions bound it most. The clocks' rates may
//! differ, so the offset is a line over time: the bounds at a moment are the highest and the lowest of all lines that lie below
//! every bound of the one kind and above every one of the other, a linear programme in two variables (Moon, Skelly and Towsley,
//! "Estimation and Removal of Clock Skew from Network Delay Measurements", INFOCOM 1999, do it for one direction). Nothing is
//! assumed of how the time divides between the two ways; half of a round trip is nobody's one-way time.

/// Largest difference between the rates of two clocks: twice the slew that a kernel allows (RFC 5905, section 11.3: 500 ppm).
const MAX_SKEW: f64 = 1e-3;
/// Slack, in nanoseconds: clocks show whole ones.
const ROUNDING_NS: f64 = 1.0;

/// When a round trip passed the points between the hosts, in nanoseconds, each on its own host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTripStamps {
    pub(crate) client_out: u64,
    pub(crate) server_in: u64,
    pub(crate) server_out: u64,
    pub(crate) client_in: u64,
}

impl RoundTripStamps {
    /// The time between the hosts both ways together, in nanoseconds.
    fn both_ways_ns(&self) -> f64 {
        difference(self.client_in, self.client_out) - difference(self.server_out, self.server_in)
    }
}

/// One reading less another, of whatever clocks.
fn difference(later: u64, earlier: u64) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64
}

/// A range that holds the true value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The least, in nanoseconds.
    pub low: f64,
    /// The most, in nanoseconds.
    pub high: f64,
}

impl Bounds {
    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (of(self.low), of(self.high));
        Self {
            low: a.min(b),
            high: a.max(b),
        }
    }

    /// The middle of the range.
    pub fn middle_ns(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// The range's half length.
    pub fn half_ns(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The mean time of one way, and of the other, and how far the server's clock is ahead, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneWay {
    /// From the client's last gate to the server's first one.
    pub there: Bounds,
    /// From the server's last gate to the client's first one.
    pub back: Bounds,
    /// The offset of the server's clock from the client's.
    pub ahead: Bounds,
}

impl OneWay {
    /// Subtracts the known cost of gates from each way.
    pub fn less(self, there: f64, back: f64) -> Self {
        // What is left is no shorter than nothing either.
        Self {
            there: self.there.map(|ns| (ns - there).max(0.0)),
            back: self.back.map(|ns| (ns - back).max(0.0)),
            ..self
        }
    }
}

/// The share of the longest exchanges that means leave out; they bound the clocks all the same.
const LONGEST: usize = 100;

/// Bounds a slice's one-way times; none without exchanges, or when no two clocks could have shown them.
pub(crate) fn one_way(exchanges: &[RoundTripStamps]) -> Option<OneWay> {
    let first = exchanges.first()?;
    // Near zero, where a floating point number has digits to spare.
    let apart = i128::from(first.server_in) - i128::from(first.client_out);
    let since = |client: u64| difference(client, first.client_out);
    let ahead = |server: u64, client: u64| (i128::from(server) - i128::from(client) - apart) as f64;
    let above: Vec<Point> = exchanges
        .iter()
        .map(|e| Point {
            at: since(e.client_out),
            offset: ahead(e.server_in, e.client_out),
        })
        .collect();
    let below: Vec<Point> = exchanges
        .iter()
        .map(|e| Point {
            at: since(e.client_in),
            offset: ahead(e.server_out, e.client_in),
        })
        .collect();
    let lines = Lines::between(above.clone(), below.clone());
    let mut kept: Vec<usize> = (0..exchanges.len()).collect();
    kept.sort_by(|&a, &b| {
        let both = |at: usize| exchanges[at].both_ways_ns();
        both(a).total_cmp(&both(b))
    });
    kept.truncate(exchanges.len() - exchanges.len() / LONGEST);
    let mean = |points: &[Point], of: fn(&Point) -> f64| {
        kept.iter().map(|&at| of(&points[at])).sum::<f64>() / kept.len() as f64
    };
    let there_at = lines.at(mean(&above, |point| point.at))?;
    let back_at = lines.at(mean(&below, |point| point.at))?;
    let (up, down) = (mean(&above, |p| p.offset), mean(&below, |p| p.offset));
    Some(OneWay {
        there: there_at.map(|offset| up - offset),
        back: back_at.map(|offset| offset - down),
        ahead: there_at.map(|offset| offset + apart as f64),
    })
}

/// A bound of the clocks' offset at a moment, both in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    at: f64,
    offset: f64,
}

/// The lines below all points of the one kind and above all of the other.
struct Lines {
    above: Vec<Point>,
    below: Vec<Point>,
}

impl Lines {
    fn between(above: Vec<Point>, below: Vec<Point>) -> Self {
        let turned = |points: Vec<Point>| -> Vec<Point> {
            let turn = |point: Point| Point {
                offset: -point.offset,
                ..point
            };
            points.into_iter().map(turn).collect()
        };
        Self {
            above: lower_hull(above),
            below: turned(lower_hull(turned(below))),
        }
    }

    /// Tells whether the line lies where it must.
    fn holds(&self, start: f64, slope: f64) -> bool {
        let line = |point: &Point| start + slope * point.at;
        slope.abs() <= MAX_SKEW * (1.0 + 1e-9)
            && (self.above.iter()).all(|point| line(point) <= point.offset + ROUNDING_NS)
            && (self.below.iter()).all(|point| line(point) >= point.offset - ROUNDING_NS)
    }

    /// The range of the lines at a moment; none when there is no line. An extreme of a linear programme lies at a corner: at a line
    /// through two points, or through one at the steepest slope.
    fn at(&self, at: f64) -> Option<Bounds> {
        let points: Vec<Point> = self.above.iter().chain(&self.below).copied().collect();
        let mut range: Option<Bounds> = None;
        let mut consider = |start: f64, slope: f64| {
            if self.holds(start, slope) {
                let here = start + slope * at;
                range = Some(range.map_or(
                    Bounds {
                        low: here,
                        high: here,
                    },
                    |range| Bounds {
                        low: range.low.min(here),
                        high: range.high.max(here),
                    },
                ));
            }
        };
        for (index, a) in points.iter().enumerate() {
            for slope in [-MAX_SKEW, MAX_SKEW] {
                consider(a.offset - slope * a.at, slope);
            }
            for b in &points[index + 1..] {
                let slope = (b.offset - a.offset) / (b.at - a.at);
                if slope.is_finite() {
                    consider(a.offset - slope * a.at, slope);
                }
            }
        }
        range
    }
}

/// The points that a line can touch from below: the lower convex hull (Andrew's monotone chain).
fn lower_hull(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.offset.total_cmp(&b.offset)));
    points.dedup_by(|later, earlier| later.at == earlier.at);
    let mut hull: Vec<Point> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.at - a.at) * (point.offset - a.offset)
                - (b.offset - a.offset) * (point.at - a.at);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Exchanges over a network with these one-way times, seen on a server's clock that is ahead by `offset` and fast by `skew`.
    fn simulated(offset: i64, skew: f64, ways: &[(u32, u32)]) -> (Vec<RoundTripStamps>, f64, f64) {
        let mut true_ns = 5_000_000_000_000_u64;
        let start = true_ns;
        let server = |at: u64| {
            let drift = (skew * (at - start) as f64).round() as i64;
            at.checked_add_signed(offset + drift).unwrap()
        };
        let mut exchanges = Vec::new();
        for &(there, back) in ways {
            let arrived = true_ns + u64::from(there);
            let answered = arrived + 7_000;
            let done = answered + u64::from(back);
            exchanges.push(RoundTripStamps {
                client_out: true_ns,
                server_in: server(arrived),
                server_out: server(answered),
                client_in: done,
            });
            true_ns = done + 3_000;
        }
        let mean = |of: fn(&(u32, u32)) -> u32| {
            ways.iter().map(|way| f64::from(of(way))).sum::<f64>() / ways.len() as f64
        };
        (exchanges, mean(|way| way.0), mean(|way| way.1))
    }

    #[test]
    fn both_ways_together_need_no_common_clock() {
        for offset in [0, 17, -4_000_000_000_000, 900_000_000_000_000] {
            let (exchanges, ..) = simulated(offset, 0.0, &[(1_000, 9_000)]);
            assert_eq!(exchanges[0].both_ways_ns(), 10_000.0);
        }
    }

    #[test]
    fn a_fast_exchange_each_way_pins_the_offset() {
        let (exchanges, there, back) =
            simulated(12_345, 0.0, &[(50_000, 10), (10, 50_000), (30_000, 30_000)]);
        let one = one_way(&exchanges).unwrap();
        assert!(one.ahead.low <= 12_345.0 && one.ahead.high >= 12_345.0);
        // The skew that is allowed for over 200 us is 200 ns.
        assert!(one.ahead.half_ns() < 300.0, "{one:?}");
        assert!((one.there.low - 400.0..one.there.high + 400.0).contains(&there));
        assert!((one.back.low - 400.0..one.back.high + 400.0).contains(&back));
    }

    #[test]
    fn an_answer_before_its_request_is_no_network() {
        let (mut exchanges, ..) = simulated(0, 0.0, &[(1_000, 1_000), (1_000, 1_000)]);
        exchanges[1].server_out += 1_000_000;
        assert_eq!(one_way(&exchanges), None);
        assert_eq!(one_way(&[]), None);
    }

    proptest! {
        #[test]
        fn bounds_hold_the_truth(
            offset in -4_000_000_000_000_i64..900_000_000_000_000,
            skew in -4e-4..4e-4f64,
            ways in prop::collection::vec((0u32..100_000, 0u32..100_000), 1..60),
        ) {
            let (exchanges, there, back) = simulated(offset, skew, &ways);
            let one = one_way(&exchanges).unwrap();
            // The simulated clock shows whole nanoseconds, so a line may lie off by one.
            let holds = |bounds: Bounds, truth: f64, slack: f64| {
                bounds.low - slack <= truth && truth <= bounds.high + slack
            };
            // Drift makes a time on the server's clock differ from the true one by a thousandth of itself at most.
            prop_assert!(holds(one.there, there, 102.0), "{:?} {}", one, there);
            prop_assert!(holds(one.back, back, 102.0), "{:?} {}", one, back);
            let span = (exchanges[exchanges.len() - 1].client_in - exchanges[0].client_out) as f64;
            prop_assert!(holds(one.ahead, offset as f64, skew.abs() * span + 2.0), "{:?}", one);
            prop_assert!(one.there.low >= -2.0 && one.back.low >= -2.0, "{:?}", one);
        }

        #[test]
        fn a_hull_lies_below_its_points(points in prop::collection::vec((0i32..1_000, 0i32..1_000), 1..80)) {
            let points: Vec<Point> = points
                .into_iter()
                .map(|(at, offset)| Point { at: at.into(), offset: offset.into() })
                .collect();
            let hull = lower_hull(points.clone());
            for pair in hull.windows(2) {
                for point in &points {
                    if (pair[0].at..=pair[1].at).contains(&point.at) {
                        let slope = (pair[1].offset - pair[0].offset) / (pair[1].at - pair[0].at);
                        prop_assert!(pair[0].offset + slope * (point.at - pair[0].at) <= point.offset + 1e-6);
                    }
                }
            }
        }
    }
}
