//! Layers of instructions: the rules of `layers.toml` (its head says how they are read), and what they make of a profile.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::Error;
use super::counts::{LayerCount, Operation, UncoveredCount};
use super::profile::{InstructionCount, Region};
use crate::protocol::Workload;

/// The rules that come with Tollgate.
pub const BUILT_IN: &str = include_str!("../layers.toml");

/// The id of what user space executed.
pub const USER: &str = "user";
/// The id of what no rule covers.
pub const OTHER: &str = "other";

/// The rules, ready to be used.
#[derive(Debug, Clone)]
pub struct Rules {
    layers: Vec<Layer>,
    operations: Vec<OperationRule>,
    whole: Names<usize>,
    functions: Names<usize>,
    inherit: Names<()>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    inherit: Vec<String>,
    layer: Vec<Layer>,
    #[serde(default)]
    operation: Vec<OperationRule>,
}

/// A layer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    id: String,
    label: String,
    layer: String,
    #[serde(default)]
    whole: Vec<String>,
    #[serde(default)]
    functions: Vec<String>,
}

/// An operation that is counted on its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationRule {
    id: String,
    workload: Workload,
    /// Layers whose instructions are counted,
    #[serde(default)]
    layers: Vec<String>,
    /// below this function
    under: Option<String>,
    /// and this one,
    within: Option<String>,
    /// but not below that one,
    except: Option<String>,
    /// for each call of this function there.
    per: Option<String>,
    /// Or everything in this function, for each of its calls.
    function: Option<String>,
    counted: String,
}

/// Values that stand for a name, or for all names that begin in a way.
#[derive(Debug, Clone)]
struct Names<T> {
    exact: HashMap<String, T>,
    /// The longest first.
    prefixes: Vec<(String, T)>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            prefixes: Vec::new(),
        }
    }
}

impl<T: Copy> Names<T> {
    fn add(&mut self, pattern: &str, value: T) -> Result<(), Error> {
        let twice = || Error::Rules {
            what: format!("{pattern:?} stands in two places"),
        };
        match pattern.strip_suffix('*') {
            None => match self.exact.insert(pattern.to_owned(), value) {
                None => Ok(()),
                Some(_) => Err(twice()),
            },
            Some(prefix) => {
                if self.prefixes.iter().any(|(other, _)| other == prefix) {
                    return Err(twice());
                }
                let longer = |(other, _): &(String, T)| other.len() >= prefix.len();
                let place = self.prefixes.partition_point(longer);
                self.prefixes.insert(place, (prefix.to_owned(), value));
                Ok(())
            }
        }
    }

    /// Value that stands for the name itself, else for the longest of its beginnings, with the number of letters that
    /// match.
    fn get(&self, name: &str) -> Option<(usize, T)> {
        if let Some(value) = self.exact.get(name) {
            return Some((usize::MAX, *value));
        }
        let fits = self
            .prefixes
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix.as_str()));
        fits.map(|(prefix, value)| (prefix.len(), *value))
    }
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// [`Error::Rules`] when they are no TOML of the right form, name a function twice, or name a layer that there is not.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: File = toml::from_str(text).map_err(|error| Error::Rules {
            what: error.to_string(),
        })?;
        let mut rules = Self {
            layers: file.layer,
            operations: file.operation,
            whole: Names::default(),
            functions: Names::default(),
            inherit: Names::default(),
        };
        for pattern in &file.inherit {
            rules.inherit.add(pattern, ())?;
        }
        for (index, layer) in rules.layers.iter().enumerate() {
            for pattern in &layer.whole {
                rules.whole.add(pattern, index)?;
            }
            for pattern in &layer.functions {
                rules.functions.add(pattern, index)?;
            }
        }
        for operation in &rules.operations {
            let unknown = |id: &&String| !rules.layers.iter().any(|layer| layer.id == **id);
            if let Some(id) = operation.layers.iter().find(unknown) {
                return Err(Error::Rules {
                    what: format!(
                        "operation {:?} names the layer {id:?}, which there is not",
                        operation.id
                    ),
                });
            }
            let by_layers = !operation.layers.is_empty()
                && operation.under.is_some()
                && operation.per.is_some();
            if by_layers == operation.function.is_some() {
                return Err(Error::Rules {
                    what: format!(
                        "operation {:?} must have either layers, under and per, or function",
                        operation.id
                    ),
                });
            }
        }
        Ok(rules)
    }

    /// The rules that come with Tollgate.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn built_in() -> Result<Self, Error> {
        Self::parse(BUILT_IN)
    }

    /// The layer of what the last function of a way executed; none when no rule covers it.
    fn layer(&self, way: &[String]) -> Option<usize> {
        let whole = way.iter().find_map(|name| self.whole.get(name));
        if let Some((_, layer)) = whole {
            return Some(layer);
        }
        for name in way.iter().rev() {
            match (self.functions.get(name), self.inherit.get(name)) {
                // The rule that says more about the name holds.
                (Some((letters, layer)), helper)
                    if helper.is_none_or(|(less, ())| less <= letters) =>
                {
                    return Some(layer);
                }
                (_, Some(_)) => {}
                (_, None) => return None,
            }
        }
        None
    }

    /// Instructions of each layer, in the order of the rules, user space first; and those that no rule covers, by
    /// function, the most first.
    #[must_use]
    pub fn layers(&self, region: &Region) -> (Vec<LayerCount>, Vec<UncoveredCount>) {
        let mut counts = vec![InstructionCount::default(); self.layers.len()];
        let mut others: BTreeMap<&str, InstructionCount> = BTreeMap::new();
        for place in &region.places {
            match (self.layer(&place.way), place.way.last()) {
                (Some(layer), _) => counts[layer] += place.count,
                (None, Some(name)) => *others.entry(name).or_default() += place.count,
                (None, None) => {}
            }
        }
        let user = LayerCount {
            id: USER.to_owned(),
            label: "User".to_owned(),
            layer: "socket".to_owned(),
            count: region.user,
        };
        let kernel = self
            .layers
            .iter()
            .zip(counts)
            .map(|(layer, count)| LayerCount {
                id: layer.id.clone(),
                label: layer.label.clone(),
                layer: layer.layer.clone(),
                count,
            });
        let layers = [user].into_iter().chain(kernel).collect();
        let mut others: Vec<UncoveredCount> = others
            .into_iter()
            .map(|(function, count)| UncoveredCount {
                function: function.to_owned(),
                count,
            })
            .collect();
        others.sort_by(|a, b| {
            (b.count.instructions, &a.function).cmp(&(a.count.instructions, &b.function))
        });
        (layers, others)
    }

    /// The operations of a workload that took place in a region.
    #[must_use]
    pub fn operations(&self, workload: Workload, region: &Region) -> Vec<Operation> {
        let mine = self
            .operations
            .iter()
            .filter(|operation| operation.workload == workload);
        mine.filter_map(|rule| self.operation(rule, region))
            .collect()
    }

    fn operation(&self, rule: &OperationRule, region: &Region) -> Option<Operation> {
        let has = |way: &[String], name: &Option<String>| {
            name.as_ref().is_none_or(|name| way.contains(name))
        };
        let wanted = |way: &[String]| {
            has(way, &rule.under)
                && has(way, &rule.within)
                && has(way, &rule.function)
                && rule.except.as_ref().is_none_or(|name| !way.contains(name))
        };
        let per = rule.function.as_ref().or(rule.per.as_ref())?;
        let times = region
            .calls
            .iter()
            .filter(|(way, _)| way.last() == Some(per) && wanted(way));
        let times: u64 = times.map(|(_, times)| times).sum();
        let mut count = InstructionCount::default();
        for place in region.places.iter().filter(|place| wanted(&place.way)) {
            let layer = self
                .layer(&place.way)
                .and_then(|layer| self.layers.get(layer));
            if rule.layers.is_empty() || layer.is_some_and(|layer| rule.layers.contains(&layer.id))
            {
                count += place.count;
            }
        }
        (times > 0).then(|| Operation {
            id: rule.id.clone(),
            times,
            count,
            counted: rule.counted.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
