//! Forest plots in characters: a line for each row, with a strip for each panel on one logarithmic scale.

use tollgate_run::{ForestRow, Ratio, format};

use super::{Ink, Page, clean, pad_left, pad_right, width};
use crate::forest::{Beyond, ForestScale, names};

/// The least width of a strip, in characters.
const LEAST: usize = 7;
/// The largest width of a strip.
const MOST: usize = 21;

impl Page {
    pub(super) fn forest(&mut self, title: &str, panels: &[String], rows: &[ForestRow]) {
        self.line("");
        self.wrap(Ink::Bold, "", 0, title);
        let scale = ForestScale::of(rows);
        let label_width = rows.iter().map(|row| width(&row.label)).max().unwrap_or(0);
        let beside = self.width.saturating_sub(label_width + 2) / panels.len().max(1);
        let strip = beside.saturating_sub(2).clamp(LEAST, MOST);
        let cells = panels.iter().map(|panel| pad_right(&clean(panel), strip));
        let head: Vec<String> = cells.collect();
        let head = format!("  {}  {}", " ".repeat(label_width), head.join("  "));
        self.line(head.trim_end());
        for row in rows {
            let strips: Vec<String> = row
                .panels
                .iter()
                .map(|ratios| drawn(ratios, scale, strip))
                .collect();
            let label = pad_left(&clean(&row.label), label_width);
            let line = format!("  {label}  {}", strips.join("  "));
            self.line(line.trim_end());
        }
        let list = |names: Vec<&str>| {
            let names: Vec<String> = names.into_iter().map(clean).collect();
            format::list(&names)
        };
        let (estimates, exact) = (list(names(rows, false)), list(names(rows, true)));
        let mut legend = vec!["┊ the reference".to_owned()];
        if !estimates.is_empty() {
            legend.push(format!("● {estimates}, with its interval"));
            legend.push("○ no difference".to_owned());
        }
        if !exact.is_empty() {
            legend.push(format!("◇ {exact}"));
        }
        legend.push("« » beyond the scale".to_owned());
        let text = format!("{}; more to the right, logarithmic", legend.join("  "));
        self.wrap(Ink::Faint, "  ", 2, &text);
    }
}

/// A strip of so many characters: the reference, then exact ratios, intervals and estimates over it.
fn drawn(ratios: &[Ratio], scale: ForestScale, room: usize) -> String {
    let place = |share: f64| (share * (room - 1) as f64).round() as usize;
    let mut strip = vec![' '; room];
    strip[place(scale.share(1.0))] = '┊';
    for ratio in ratios {
        if let Some([low, high]) = scale.interval(ratio) {
            strip[place(low)..=place(high)].fill('─');
        }
    }
    for exact in [true, false] {
        for ratio in ratios.iter().filter(|ratio| ratio.ci.is_none() == exact) {
            let beyond = scale.beyond(ratio.value);
            strip[place(scale.share(ratio.value))] = match (beyond, exact, ratio.shows_difference())
            {
                (Some(Beyond::Low), ..) => '«',
                (Some(Beyond::High), ..) => '»',
                (None, true, _) => '◇',
                (None, false, true) => '●',
                (None, false, false) => '○',
            };
        }
    }
    strip.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use tollgate_run::Interval;

    use super::*;

    fn ratio(value: f64, ci: Option<(f64, f64)>) -> Ratio {
        Ratio {
            label: "time".to_owned(),
            value,
            ci: ci.map(|(low, high)| Interval { low, high }),
        }
    }

    #[test]
    fn strips_place_ratios_on_one_scale() {
        let rows = [ForestRow {
            label: "row".to_owned(),
            panels: vec![vec![ratio(0.5, None), ratio(2.0, Some((1.5, 2.0)))]],
        }];
        let scale = ForestScale::of(&rows);
        let strip = |ratios: &[Ratio]| drawn(ratios, scale, 9);
        assert_eq!(strip(&rows[0].panels[0]), "◇   ┊ ──●");
        assert_eq!(strip(&[ratio(1.0, Some((0.5, 2.0)))]), "────○────");
        assert_eq!(strip(&[]), "    ┊    ");
        assert_eq!(strip(&[ratio(1e5, Some((9e4, 1.1e5)))]), "    ┊   »");
    }
}
