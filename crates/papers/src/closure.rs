//! Tells whether a table's totals and computed columns follow from its other cells.
//!
//! Owns the recomputation and the tolerance that printed digits allow. Must never decide whether a deviation is
//! forgiven: [`Table::gaps`] lists the known ones, and the tests hold the two lists against each other.

use super::model::{Content, Derived, Row, Table};

/// A printed cell beside the value that the table's other cells give for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closure<'a> {
    /// Row of the printed cell.
    pub row: &'a str,
    /// Column of the printed cell.
    pub column: &'a str,
    /// Number as the paper prints it.
    pub printed: f64,
    /// Number that its parts give.
    pub computed: f64,
    /// The largest deviation that rounding to the printed digits explains; never negative.
    pub tolerance: f64,
}

impl Closure<'_> {
    /// Printed less computed, in the column's unit.
    pub fn deviation(&self) -> f64 {
        self.printed - self.computed
    }

    /// Tells whether rounding explains the deviation.
    pub fn closes(&self) -> bool {
        self.deviation().abs() <= self.tolerance + 1e-9
    }
}

impl Table {
    /// Every cell that can be recomputed: totals from their parts, computed columns from theirs.
    ///
    /// A total with a part that the paper does not state is left out.
    pub fn closures(&self) -> Vec<Closure<'_>> {
        let totals = self.rows.iter().flat_map(|row| self.total_closures(row));
        let derived = self
            .derived
            .iter()
            .flat_map(|derived| self.derived_closures(derived));
        totals.chain(derived).collect()
    }

    /// Tells whether every cell that can be recomputed closes; `None` when there is none.
    pub fn closes(&self) -> Option<bool> {
        let closures = self.closures();
        if closures.is_empty() {
            return None;
        }
        Some(closures.iter().all(Closure::closes))
    }

    fn total_closures<'a>(&'a self, total: &'a Row) -> Vec<Closure<'a>> {
        let parts: Vec<&Row> = self.children(&total.id).collect();
        if parts.is_empty() || parts.iter().any(|part| part.of_which) {
            return Vec::new();
        }
        (0..self.columns.len())
            .filter_map(|index| {
                let printed = Measure::of(&total.cells[index].content)?;
                let computed = Measure::sum(parts.iter().map(|part| &part.cells[index].content))?;
                Some(Closure {
                    row: &total.id,
                    column: &self.columns[index].id,
                    printed: printed.value,
                    computed: computed.value,
                    tolerance: printed.half_step + computed.half_step,
                })
            })
            .collect()
    }

    fn derived_closures<'a>(&'a self, derived: &'a Derived) -> Vec<Closure<'a>> {
        let column = derived.column();
        self.rows
            .iter()
            .filter_map(|row| {
                let printed = Measure::of(&row.cells[self.column_index(column)?].content)?;
                let computed = self.recompute(row, derived)?;
                Some(Closure {
                    row: &row.id,
                    column,
                    printed: printed.value,
                    computed: computed.value,
                    tolerance: printed.half_step + computed.half_step,
                })
            })
            .collect()
    }

    fn recompute(&self, row: &Row, derived: &Derived) -> Option<Measure> {
        match derived {
            Derived::Sum { of, .. } => self.sum_of(row, of),
            Derived::DecreasePercent { from, to, .. } => self
                .sum_of(row, from)?
                .decrease_percent(self.sum_of(row, to)?),
            Derived::IncreasePercent { from, to, .. } => {
                let decrease = self
                    .sum_of(row, from)?
                    .decrease_percent(self.sum_of(row, to)?)?;
                Some(Measure {
                    value: -decrease.value,
                    ..decrease
                })
            }
        }
    }

    fn sum_of(&self, row: &Row, columns: &[String]) -> Option<Measure> {
        let indices: Option<Vec<usize>> = columns
            .iter()
            .map(|column| self.column_index(column))
            .collect();
        Measure::sum(indices?.into_iter().map(|index| &row.cells[index].content))
    }
}

/// A printed value and half the step of its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) value: f64,
    pub(super) half_step: f64,
}

impl Measure {
    pub(super) fn printed(value: f64) -> Self {
        Self {
            value,
            half_step: printed_step(value) / 2.0,
        }
    }

    fn of(content: &Content) -> Option<Self> {
        content.number().map(Self::printed)
    }

    fn sum<'a>(parts: impl Iterator<Item = &'a Content>) -> Option<Self> {
        let mut sum = Self {
            value: 0.0,
            half_step: 0.0,
        };
        for part in parts {
            match part {
                Content::NotApplicable => {}
                Content::Number(value) => {
                    let part = Self::printed(*value);
                    sum.value += part.value;
                    sum.half_step += part.half_step;
                }
                Content::Text(_) | Content::NotStated => return None,
            }
        }
        Some(sum)
    }

    /// `100 * (self - to) / self`, its half step by the first derivatives; `None` when `self` is zero.
    pub(super) fn decrease_percent(self, to: Self) -> Option<Self> {
        if self.value == 0.0 {
            return None;
        }
        let by_to = to.half_step / self.value.abs();
        let by_from = self.half_step * to.value.abs() / (self.value * self.value);
        Some(Self {
            value: 100.0 * (self.value - to.value) / self.value,
            half_step: 100.0 * (by_to + by_from),
        })
    }
}

/// The step of the last printed digit: 1 for 77, 0.1 for 5.1.
///
/// Zeros at the end of a fraction are not seen, so the step is at times too coarse, never too fine.
pub(super) fn printed_step(value: f64) -> f64 {
    let digits = format!("{value}");
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX))
}
