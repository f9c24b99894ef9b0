//! The servers that the tests of tables talk to, each a process of its own: a Ballista scheduler, a Ballista executor, an S3 store.
//!
//! Each is the library that its published program is made of, with that program's defaults and nothing of ours, so what works
//! with them works with a cluster that others run. Each prints `ready` when it listens, and ends when its standard input does, so none
//! outlives the test that started it.
//!
//! It must never be part of what users install.
#![forbid(unsafe_code)]

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fmt, thread};

use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

/// Executors are waited for within seconds, not minutes; one that a query keeps busy is not taken for gone.
const HEARTBEAT_S: u64 = 1;
const EXPIRES_S: u64 = 30;

/// Says what the servers have to say of themselves where a test that fails shows it.
struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    thread::spawn(|| {
        // Nothing is ever written to it; it ends with the test, in whatever way that does.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    // Nothing else in this process sets one.
    let _ = log::set_logger(&Stderr).map(|()| log::set_max_level(log::LevelFilter::Info));
    match serve(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-cluster {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[&str]) -> Result<(), Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match words {
        ["scheduler", policy, executors] => {
            threads.block_on(scheduler(policy_of(policy)?, executors.parse()?))
        }
        ["executor", policy, scheduler, folder] => {
            threads.block_on(executor(policy_of(policy)?, scheduler.parse()?, folder))
        }
        ["s3", folder, key, secret] => threads.block_on(s3(folder, key, secret)),
        _ => Err("give scheduler POLICY EXECUTORS, executor POLICY PORT FOLDER, or s3 FOLDER KEY SECRET; POLICY is push-staged or pull-staged".into()),
    }
}

/// Says that the server listens on this port.
fn ready(port: u16) {
    println!("ready {port}");
}

/// A scheduling policy by the name that the published programs have for it.
fn policy_of(name: &str) -> Result<TaskSchedulingPolicy, Failure> {
    match name {
        "push-staged" => Ok(TaskSchedulingPolicy::PushStaged),
        "pull-staged" => Ok(TaskSchedulingPolicy::PullStaged),
        _ => Err(format!("`{name}` is no scheduling policy").into()),
    }
}

async fn scheduler(policy: TaskSchedulingPolicy, executors: usize) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let config = SchedulerConfig {
        bind_port: port,
        external_host: "127.0.0.1".to_owned(),
        scheduling_policy: policy,
        executor_timeout_seconds: EXPIRES_S,
        expire_dead_executor_interval_seconds: HEARTBEAT_S,
        // `/readyz` says when all are there.
        min_ready_executors: executors,
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let server =
        create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    ready(port);
    Ok(start_grpc_service_with_listener(listener, server).await?)
}

async fn executor(
    policy: TaskSchedulingPolicy,
    scheduler_port: u16,
    folder: &str,
) -> Result<(), Failure> {
    let [port, grpc_port] = free_ports()?;
    let config = ExecutorProcessConfig {
        port,
        grpc_port,
        scheduler_host: "127.0.0.1".to_owned(),
        scheduler_port,
        external_host: Some("127.0.0.1".to_owned()),
        vcores: 2,
        task_scheduling_policy: policy,
        work_dir: Some(folder.to_owned()),
        executor_heartbeat_interval_seconds: HEARTBEAT_S,
        ..ExecutorProcessConfig::default()
    };
    ready(config.port);
    Ok(start_executor_process(Arc::new(config)).await?)
}

/// Two ports that were free just now. An executor takes no listener that is bound already.
fn free_ports() -> Result<[u16; 2], Failure> {
    let bind = || std::net::TcpListener::bind("127.0.0.1:0");
    let (one, other) = (bind()?, bind()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

async fn s3(folder: &str, key: &str, secret: &str) -> Result<(), Failure> {
    let files = s3s_fs::FileSystem::new(folder).map_err(ErrorText::of)?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(key, secret));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    ready(listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let builder = Builder::new(hyper_util::rt::TokioExecutor::new());
            // A client that goes away in the middle is none of the server's concern.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// An error of which only the text can be had.
#[derive(Debug)]
struct ErrorText(String);

impl ErrorText {
    fn of(error: impl fmt::Debug) -> Self {
        Self(format!("{error:?}"))
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ErrorText {}
