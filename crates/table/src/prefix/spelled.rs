//! `in_prefix` spelled out in functions that every DataFusion has, for clusters whose executors do not know it.
//!
//! An address becomes a key: its family, then all its digits in hexadecimal, so that keys stand in the order of addresses and a
//! prefix is what lies between two of them. Addresses are as [`std::net::IpAddr`] writes them (RFC 5952).

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::prelude::SessionContext;

use super::{NAME, Prefix, list};

/// The column that stands for the address in [`key`].
const ADDRESS: &str = "a";

/// Replaces calls of `in_prefix` in plans.
#[derive(Debug)]
pub(crate) struct Spelled {
    key: Expr,
}

impl Spelled {
    /// Reads the key's expression.
    pub(crate) fn new() -> Result<Self> {
        let schema = Schema::new(vec![Field::new(ADDRESS, DataType::Utf8, true)]);
        let schema = DFSchema::try_from(schema)?;
        let key = SessionContext::new().parse_sql_expr(&key(), &schema)?;
        Ok(Self { key })
    }

    fn spell(&self, address: &Expr, prefixes: &[Prefix]) -> Result<Expr> {
        let address = cast(address.clone(), DataType::Utf8);
        let column = Expr::Column(Column::from_name(ADDRESS));
        let key = self.key.clone().transform(|part| {
            Ok(if part == column {
                Transformed::yes(address.clone())
            } else {
                Transformed::no(part)
            })
        })?;
        let within = prefixes.iter().map(|prefix| {
            let (low, high) = bounds(prefix);
            key.data.clone().between(lit(low), lit(high))
        });
        within
            .reduce(Expr::or)
            .ok_or_else(|| DataFusionError::Plan(format!("{NAME}: no prefix is given")))
    }
}

impl FunctionRewrite for Spelled {
    fn name(&self) -> &str {
        NAME
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = &expr else {
            return Ok(Transformed::no(expr));
        };
        if call.func.name() != NAME {
            return Ok(Transformed::no(expr));
        }
        let [address, Expr::Literal(prefixes, _)] = &*call.args else {
            return plan_err!(
                "{NAME}: takes an address and a list of prefixes, a text such as '10.0.0.0/8'"
            );
        };
        let Some(Some(prefixes)) = prefixes.try_as_str() else {
            return plan_err!("{NAME}: the list of prefixes is to be a text such as '10.0.0.0/8'");
        };
        match list(prefixes) {
            Ok(prefixes) => Ok(Transformed::yes(self.spell(address, &prefixes)?)),
            Err(error) => plan_err!("{NAME}: {error}"),
        }
    }
}

/// The key of an address, in SQL.
fn key() -> String {
    let bytes = |text: &str| {
        let bytes = (1..=4).map(|at| {
            format!("lpad(to_hex(TRY_CAST(split_part({text}, '.', {at}) AS BIGINT)), 2, '0')")
        });
        bytes.collect::<Vec<_>>().join(" || ")
    };
    // Two colons stand for as many zeros as lack to eight groups: one for each colon that is there, once there is a group on
    // either side of them.
    let colons = "(length(a) - length(replace(a, ':', '')))";
    let between = "(CASE WHEN a LIKE ':%' THEN '0' ELSE '' END || a || CASE WHEN a LIKE '%:' THEN '0' ELSE '' END)";
    let whole = format!("replace({between}, '::', ':' || repeat('0:', 8 - {colons}))");
    let groups = (1..=8).map(|at| format!("lpad(split_part({whole}, ':', {at}), 4, '0')"));
    let groups = groups.collect::<Vec<_>>().join(" || ");
    let four = bytes("a");
    // Of addresses of IPv6 only those that hold one of IPv4 are written with it, as ::ffff:192.0.2.1.
    let mapped = bytes("split_part(a, ':', 4)");
    format!(
        "CASE WHEN strpos(a, ':') = 0 THEN '4' || {four} \
         WHEN strpos(a, '.') > 0 THEN '600000000000000000000ffff' || {mapped} \
         ELSE '6' || {groups} END"
    )
}

/// The keys of a prefix's first and last address.
fn bounds(prefix: &Prefix) -> (String, String) {
    let (first, last) = prefix.bounds();
    let of = |bits: u128| match prefix.address {
        std::net::IpAddr::V4(_) => format!("4{bits:08x}"),
        std::net::IpAddr::V6(_) => format!("6{bits:032x}"),
    };
    (of(first), of(last))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;

    use arrow::array::{AsArray, RecordBatch, StringArray};
    use datafusion::execution::FunctionRegistry;
    use proptest::prelude::*;

    use super::*;

    /// Answers for these addresses by the function, and by the expression that it is rewritten to.
    fn both(addresses: &[IpAddr], prefixes: &str) -> [Vec<bool>; 2] {
        let texts: StringArray = addresses.iter().map(|one| Some(one.to_string())).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(texts)]).unwrap();
        let threads = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        [false, true].map(|spelled| {
            let context = SessionContext::new();
            context.register_udf(super::super::function());
            if spelled {
                let state = context.state_ref();
                let rewrite = Arc::new(Spelled::new().unwrap());
                state.write().register_function_rewrite(rewrite).unwrap();
            }
            context.register_batch("addresses", batch.clone()).unwrap();
            let sql = format!("SELECT in_prefix(t, '{prefixes}') FROM addresses");
            let (plan, rows) = threads.block_on(async {
                let frame = context.sql(&sql).await.unwrap();
                let plan = frame.clone().into_optimized_plan().unwrap();
                (
                    plan.display_indent().to_string(),
                    frame.collect().await.unwrap(),
                )
            });
            // Its name stays as that of the column.
            assert_eq!(plan.contains("Projection: in_prefix"), !spelled, "{plan}");
            let values = rows
                .iter()
                .flat_map(|batch| batch.column(0).as_boolean().iter());
            values.map(|value| value.unwrap()).collect()
        })
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        // Groups that are often zero, so that they are left out at every place.
        let group = prop_oneof![Just(0_u16), 0..3_u16, any::<u16>()];
        prop_oneof![
            any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
            proptest::array::uniform8(group).prop_map(|groups| Ipv6Addr::from(groups).into()),
            any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped().into()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn both_say_the_same(
            addresses in proptest::collection::vec(address(), 64),
            of in 0..64_usize,
            len in 0..=128_u8,
        ) {
            let len = if addresses[of].is_ipv4() { len % 33 } else { len };
            let prefixes = format!("{}/{len},10.0.0.0/8,::/97", addresses[of]);
            let [function, spelled] = both(&addresses, &prefixes);
            prop_assert!(function[of]);
            prop_assert_eq!(function, spelled);
        }
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        let threads = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let context = SessionContext::new();
        context.register_udf(super::super::function());
        let rewrite = Arc::new(Spelled::new().unwrap());
        context
            .state_ref()
            .write()
            .register_function_rewrite(rewrite)
            .unwrap();
        for wrong in ["in_prefix('::1', 'ten')", "in_prefix('::1', 'a' || 'b')"] {
            let error = threads.block_on(async {
                context
                    .sql(&format!("SELECT {wrong}"))
                    .await
                    .unwrap()
                    .collect()
                    .await
                    .unwrap_err()
            });
            assert!(error.to_string().contains("in_prefix: "), "{error}");
        }
    }
}
