//! One table: what, bar, budget, value, and whether each holds; and the verdict in one line.

use crate::budgets::Budgets;
use crate::rows::{Bar, Row};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Tells whether a value keeps to its bar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "bar")]
pub enum BarVerdict {
    /// There is no bar.
    None,
    /// It does.
    Met,
    /// It exceeds it by so much.
    Missed {
        /// Percent of the bar.
        by_percent: f64,
    },
}

/// Tells whether a value keeps to its budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "budget")]
pub enum BudgetVerdict {
    /// It does.
    Within,
    /// It exceeds it by more than the tolerance.
    Exceeded {
        /// Percent of the budget.
        by_percent: f64,
    },
    /// Nothing was recorded for this row.
    Unrecorded,
}

/// A row with its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Key.
    pub id: &'static str,
    /// The counted operation.
    pub what: &'static str,
    /// Unit of the numbers.
    pub unit: &'static str,
    /// The bar that the value must not exceed.
    pub bar: Option<f64>,
    /// The recorded budget.
    pub budget: Option<f64>,
    /// The counted value.
    pub value: f64,
    /// Tells whether the bar is kept to.
    pub bar_verdict: BarVerdict,
    /// Tells whether the budget is.
    pub budget_verdict: BudgetVerdict,
    /// The figures of others.
    pub others: &'static str,
}

/// All rows with their numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The rows.
    pub lines: Vec<Line>,
    /// Tells whether no budget is exceeded or missing.
    pub passed: bool,
}

/// Sets `values` against bars and budgets. Rows without a value are left out.
pub fn check(rows: &[Row], values: &BTreeMap<&str, f64>, budgets: &Budgets) -> Check {
    let line = |row: &Row| {
        let value = *values.get(row.id)?;
        let bar = match row.bar {
            Bar::AtMost(bar) => Some(bar),
            Bar::More(more, other) => values.get(other).map(|other| other + more),
            Bar::Times(factor, other) => values.get(other).map(|other| factor * other),
            Bar::None => None,
        };
        let budget = budgets.budgets.get(row.id).copied();
        Some(Line {
            id: row.id,
            what: row.what,
            unit: row.unit,
            bar,
            budget,
            value,
            bar_verdict: bar_verdict(value, bar),
            budget_verdict: budget_verdict(value, budget, budgets.tolerance_percent),
            others: row.others,
        })
    };
    let lines: Vec<Line> = rows.iter().filter_map(line).collect();
    let passed = lines
        .iter()
        .all(|line| line.budget_verdict == BudgetVerdict::Within);
    Check { lines, passed }
}

fn bar_verdict(value: f64, bar: Option<f64>) -> BarVerdict {
    match bar {
        None => BarVerdict::None,
        Some(bar) if value <= bar => BarVerdict::Met,
        Some(bar) => BarVerdict::Missed {
            by_percent: excess(value, bar),
        },
    }
}

fn budget_verdict(value: f64, budget: Option<f64>, tolerance_percent: f64) -> BudgetVerdict {
    match budget {
        None => BudgetVerdict::Unrecorded,
        // A budget is written down in hundredths.
        Some(budget) if value <= budget * (1.0 + tolerance_percent / 100.0) + 0.005 => {
            BudgetVerdict::Within
        }
        Some(budget) => BudgetVerdict::Exceeded {
            by_percent: excess(value, budget),
        },
    }
}

/// The percentage by which a value exceeds `limit`.
fn excess(value: f64, limit: f64) -> f64 {
    (value / limit - 1.0) * 100.0
}

impl fmt::Display for BarVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Met => f.write_str("met"),
            Self::Missed { by_percent } => write!(f, "missed by {by_percent:.1} %"),
        }
    }
}

impl fmt::Display for BudgetVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within => f.write_str("kept"),
            Self::Exceeded { by_percent } => write!(f, "FAIL, exceeded by {by_percent:.1} %"),
            Self::Unrecorded => f.write_str("FAIL, not recorded"),
        }
    }
}

/// A number with a thousands separator; below 10,000 with a decimal when it is not whole.
pub fn number(value: f64) -> String {
    let tenths = if value < 10_000.0 {
        (value * 10.0).round() as u64
    } else {
        value.round() as u64 * 10
    };
    let digits = (tenths / 10).to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if tenths % 10 != 0 {
        text.push_str(&format!(".{}", tenths % 10));
    }
    text
}

/// Alignment of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings, two spaces between columns.
pub fn aligned(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = columns
        .iter()
        .map(|(heading, _)| (*heading).to_owned())
        .collect();
    let lines = || std::iter::once(&heading).chain(rows);
    let width = |n: usize| {
        lines()
            .filter_map(|row| row.get(n))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in lines() {
        let mut line = String::new();
        for ((cell, (_, align)), &width) in row.iter().zip(columns).zip(&widths) {
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

impl Check {
    /// The table.
    pub fn table(&self) -> String {
        use Align::{Left, Right};
        let columns = [
            ("what", Left),
            ("bar", Right),
            ("budget", Right),
            ("value", Right),
            ("unit", Left),
            ("bar is", Left),
            ("budget is", Left),
            ("others", Left),
        ];
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let rows: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| {
                vec![
                    line.what.to_owned(),
                    optional(line.bar),
                    optional(line.budget),
                    number(line.value),
                    line.unit.to_owned(),
                    line.bar_verdict.to_string(),
                    line.budget_verdict.to_string(),
                    line.others.to_owned(),
                ]
            })
            .collect();
        aligned(&columns, &rows)
    }

    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        let failed: Vec<&str> = self
            .lines
            .iter()
            .filter(|line| line.budget_verdict != BudgetVerdict::Within)
            .map(|line| line.id)
            .collect();
        let with_bar = self
            .lines
            .iter()
            .filter(|line| line.bar_verdict != BarVerdict::None)
            .count();
        let met = self
            .lines
            .iter()
            .filter(|line| line.bar_verdict == BarVerdict::Met)
            .count();
        let bars = format!("{met} of {with_bar} bars met");
        if failed.is_empty() {
            format!("budget: all {} within budget; {bars}", self.lines.len())
        } else {
            format!("budget: FAILED: {}; {bars}", failed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn fixed() -> (BTreeMap<&'static str, f64>, Budgets) {
        let values = BTreeMap::from([
            ("rr-64", 1_100.25),
            ("rr-64-copy-only", 1_009.0),
            ("rr-64-among-100k", 1_122.3),
            ("idle-0", 29.0),
            ("stream-16k", 12_345.67),
            ("deadline", 4.5),
            ("ip-in", 35.0),
        ]);
        let mut budgets = Budgets::default();
        budgets.record([
            ("rr-64", 1_100.25),
            ("rr-64-copy-only", 1_000.0),
            ("rr-64-among-100k", 1_100.0),
            ("idle-0", 30.0),
            ("stream-16k", 12_300.0),
            ("deadline", 4.5),
        ]);
        (values, budgets)
    }

    #[test]
    fn the_table_from_fixed_numbers() {
        let (values, budgets) = fixed();
        let check = check(ROWS, &values, &budgets);
        insta::assert_snapshot!(format!("{}\n{}", check.table(), check.verdict()));
    }

    #[test]
    fn a_missed_bar_alone_does_not_fail() {
        let values = BTreeMap::from([("rr-64", 2_300.0)]);
        let mut budgets = Budgets::default();
        budgets.record([("rr-64", 2_300.0)]);
        let result = check(ROWS, &values, &budgets);
        assert!(result.passed);
        assert_eq!(
            result.lines[0].bar_verdict,
            BarVerdict::Missed { by_percent: 100.0 }
        );
        assert_eq!(
            result.verdict(),
            "budget: all 1 within budget; 0 of 1 bars met"
        );
    }

    #[test]
    fn the_tolerance_is_a_limit() {
        assert_eq!(
            budget_verdict(101.0, Some(100.0), 1.0),
            BudgetVerdict::Within
        );
        assert!(matches!(
            budget_verdict(101.1, Some(100.0), 1.0),
            BudgetVerdict::Exceeded { .. }
        ));
        assert_eq!(
            budget_verdict(50.0, Some(100.0), 1.0),
            BudgetVerdict::Within
        );
        assert_eq!(budget_verdict(1.0, None, 1.0), BudgetVerdict::Unrecorded);
    }

    #[test]
    fn a_row_without_a_budget_fails() {
        let values = BTreeMap::from([("idle-0", 29.0)]);
        let result = check(ROWS, &values, &Budgets::default());
        assert!(!result.passed);
        assert_eq!(result.verdict(), "budget: FAILED: idle-0; 1 of 1 bars met");
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "1,000".to_owned()],
            vec!["long".to_owned(), "7".to_owned()],
        ];
        assert_eq!(
            aligned(&[("what", Align::Left), ("n", Align::Right)], &rows),
            "what      n\na     1,000\nlong      7\n"
        );
    }

    #[test]
    fn numbers_read_well() {
        let text: Vec<String> = [0.0, 4.5, 999.96, 1_736.18, 12_345.67, 1_234_567.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(
            text,
            ["0", "4.5", "1,000", "1,736.2", "12,346", "1,234,567"]
        );
    }
}
