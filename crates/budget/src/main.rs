//! `tollgate-budget`: counts instructions by Callgrind and holds them against budgets; takes ratios of times.
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "scenario" => println!("{}", tollgate_budget::valgrind::scenario_output(&a[2], a[3].parse().unwrap()).unwrap()),
        "all" => {
            let p = tollgate_budget::valgrind::Program::this(["scenario"]).unwrap();
            let pair = p.pair_cost().unwrap();
            println!("pair {pair}");
            for s in tollgate_budget::scenario::SCENARIOS {
                if a.len() > 2 && !s.name.contains(&a[2]) { continue; }
                let t = std::time::Instant::now();
                match p.count(s.name, s.count) {
                    Ok(c) => println!("{:20} {:10.2}  {:?}", s.name, c.per_operation(pair), t.elapsed()),
                    Err(e) => println!("{:20} {e}", s.name),
                }
            }
        }
        _ => {
            let p = tollgate_budget::valgrind::Program::this(["scenario"]).unwrap();
            let (done, prof) = p.profile(&a[2], 1000).unwrap();
            let mut v: Vec<_> = prof.instructions().iter().collect();
            v.sort_by_key(|i| i.line.clone());
            for i in v { println!("{:6.2} {:?} {:?}", i.count as f64 / done.operations as f64, i.line, i.functions); }
        }
    }
}
