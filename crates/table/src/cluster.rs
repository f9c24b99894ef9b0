//! A query on a Ballista cluster, from its submission to its end.
//!
//! Ballista 55.0.0 rolls a query back when an executor is lost, and two things go wrong then. Under push-staged scheduling
//! `TaskManager::sum_vcores_for_statuses` finds no task of a stage that was rolled back, so what those tasks held is never given
//! back: the executors that are left stay booked, and the query never ends. Under either policy `StageOutput::add_partition`
//! adds what a stage writes when it runs again to what it wrote before, so rows are counted twice. Therefore a query that lost
//! a task is cancelled and submitted anew, and what it found is discarded. One that makes no progress is given up.
//!
//! It must never wait without a limit.

mod scheduler;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use ballista_core::execution_plans::DistributedQueryExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_proto::protobuf::LogicalPlanNode;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_experiment::context::Cancel;

use crate::engine::Scheduler;
use crate::queries::{self, Rows};
use crate::{Error, error};
use scheduler::{Api, Executor, NoAnswer, Policy, Tasks};

/// Default of the longest time without progress of a query.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Time between two polls of a job.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Longest time in which an executor accepts a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Time without progress after which executors are asked whether they are there.
const SUSPECT: Duration = Duration::from_secs(2);
/// Most submissions of a query.
const SUBMISSIONS: usize = 3;

/// Progress of a query on a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Executors that are registered.
    pub executors: usize,
    /// Stages of the query; 0 before it is planned.
    pub stages: usize,
    /// Stages that are done.
    pub stages_done: usize,
    /// Tasks that are done. How many there will be is not known.
    pub tasks_done: usize,
    /// Tasks that run.
    pub tasks_running: usize,
}

impl Progress {
    /// The share of stages that are done.
    pub fn share(&self) -> f64 {
        self.stages_done as f64 / self.stages.max(1) as f64
    }

    /// The progress in stages, in words.
    pub fn stages(&self) -> String {
        match (self.executors, self.stages) {
            (0, _) => "no executor is registered; waiting for one".to_owned(),
            (_, 0) => "submitted".to_owned(),
            (_, stages) => format!("{} of {} done", self.stages_done, many(stages, "stage")),
        }
    }

    /// The progress in tasks, in words that follow those of [`Self::stages`].
    pub fn tasks(&self) -> String {
        let on = many(self.executors, "executor");
        match (self.executors, self.stages) {
            (0, _) => String::new(),
            (_, 0) => format!(" to {on}"),
            _ => format!(
                ", {} done, {} running on {on}",
                many(self.tasks_done, "task"),
                self.tasks_running
            ),
        }
    }
}

fn many(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Event in the course of a query, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryEvent {
    /// Its progress.
    Progress(Progress),
    /// It is submitted again, in one sentence.
    Resubmitted(String),
    /// It has ended, in whatever way.
    Ended,
}

/// Limits and callbacks for watching a query on a cluster.
pub struct Watch {
    /// The longest time without progress: no task ends, no row arrives.
    pub limit: Duration,
    /// Raised when the user wants no more.
    pub cancel: Cancel,
    /// Receives the events.
    pub on_event: Box<dyn Fn(&QueryEvent) + Send>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            cancel: Cancel::default(),
            on_event: Box::new(|_| ()),
        }
    }
}

/// Tells whether the scheduler says what this module has to know.
pub(crate) async fn check(scheduler: &Scheduler) -> Result<(), Error> {
    let said = async { Api::at(&scheduler.authority())?.policy().await };
    said.await.map_err(silent(scheduler)).map(drop)
}

fn silent(scheduler: &Scheduler) -> impl Fn(NoAnswer) -> Error {
    let scheduler = scheduler.to_string();
    move |source| Error::Silent {
        scheduler: scheduler.clone(),
        reason: error::chain(&source),
    }
}

/// Asks a context whose queries run on the cluster of this scheduler.
pub(crate) async fn ask(
    context: &SessionContext,
    scheduler: &Scheduler,
    watch: &Watch,
    sql: &str,
) -> Result<Rows, Error> {
    let outcome = submit(context, scheduler, watch, sql).await;
    (watch.on_event)(&QueryEvent::Ended);
    outcome
}

/// Submits a query, and again as long as it loses tasks.
async fn submit(
    context: &SessionContext,
    scheduler: &Scheduler,
    watch: &Watch,
    sql: &str,
) -> Result<Rows, Error> {
    let frame = queries::frame(context, sql).await?;
    let schema = Arc::clone(frame.schema().inner());
    let (state, logical) = frame.into_parts();
    let api = Api::at(&scheduler.authority()).map_err(silent(scheduler))?;
    let policy = api.policy().await.map_err(silent(scheduler))?;
    let mut losses = Vec::new();
    for submission in 1..=SUBMISSIONS {
        let plan = state.create_physical_plan(&logical).await?;
        // Before it is submitted: one that is lost at once would be taken for one that never could be reached.
        let executors = reached(api.executors().await.map_err(silent(scheduler))?).await;
        let mut job = Job {
            api: &api,
            scheduler,
            watch,
            policy,
            last: submission == SUBMISSIONS,
            before: losses.last().cloned(),
            plan: Arc::clone(&plan),
            arrived: Arc::default(),
            executors,
            tasks: Tasks::default(),
            best: Best::default(),
            moved: Instant::now(),
            asked: Instant::now(),
        };
        match job.follow(state.task_ctx()).await? {
            Ended::Rows(batches) => return Ok((schema, batches)),
            Ended::Lost(what) if job.last => losses.push(what),
            Ended::Lost(what) => {
                let next = submission + 1;
                (watch.on_event)(&QueryEvent::Resubmitted(format!(
                    "{scheduler}: {what}; the query is submitted again ({next} of {SUBMISSIONS})"
                )));
                losses.push(what);
            }
        }
    }
    losses.dedup();
    Err(Error::Losses {
        scheduler: scheduler.to_string(),
        times: SUBMISSIONS,
        lost: losses.join("; "),
    })
}

/// Outcome of a job.
enum Ended {
    Rows(Vec<RecordBatch>),
    /// It lost tasks, as this sentence says.
    Lost(String),
}

/// Highest counts so far; each grows only while a job makes progress.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    planned: bool,
    served: bool,
    stages_done: usize,
    tasks_done: usize,
    tasks_begun: usize,
    arrived: usize,
}

impl Best {
    /// Takes in what is now; whether any of it is more than before.
    fn grows(&mut self, tasks: Tasks, executors: usize, arrived: usize) -> bool {
        let before = *self;
        self.planned |= tasks.stages > 0;
        self.served |= executors > 0;
        self.stages_done = self.stages_done.max(tasks.stages_done);
        self.tasks_done = self.tasks_done.max(tasks.done);
        self.tasks_begun = self.tasks_begun.max(tasks.done + tasks.running);
        self.arrived = self.arrived.max(arrived);
        (self.planned, self.served) != (before.planned, before.served)
            || self.stages_done > before.stages_done
            || self.tasks_done > before.tasks_done
            || self.tasks_begun > before.tasks_begun
            || self.arrived > before.arrived
    }
}

/// A query that was submitted.
struct Job<'a> {
    api: &'a Api,
    scheduler: &'a Scheduler,
    watch: &'a Watch,
    policy: Policy,
    /// Tells whether it will not be submitted again.
    last: bool,
    /// The loss that ended the submission before.
    before: Option<String>,
    plan: Arc<dyn ExecutionPlan>,
    /// Batches of its result that have arrived.
    arrived: Arc<AtomicUsize>,
    /// Every executor that was registered before it was submitted or while it ran, and whether it could be reached from here.
    executors: Vec<(Executor, bool)>,
    tasks: Tasks,
    best: Best,
    /// When it last made progress.
    moved: Instant,
    /// When executors were last asked whether they are there.
    asked: Instant,
}

impl Job<'_> {
    /// Waits for its end, for the limit, or for the user.
    async fn follow(&mut self, context: Arc<TaskContext>) -> Result<Ended, Error> {
        // Going out of scope ends what runs in it.
        let mut asked = JoinSet::new();
        asked.spawn(collect(
            Arc::clone(&self.plan),
            context,
            Arc::clone(&self.arrived),
        ));
        loop {
            if let Ok(ended) = timeout(POLL_INTERVAL, asked.join_next()).await {
                let outcome = match ended {
                    Some(Ok(outcome)) => outcome,
                    Some(Err(error)) => Err(DataFusionError::Execution(error.to_string())),
                    None => Err(DataFusionError::Execution("nothing was asked".to_owned())),
                };
                return match outcome {
                    Ok(batches) => self.succeeded(batches).await,
                    Err(error) => self.failed(error).await,
                };
            }
            if self.watch.cancel.is_raised() {
                self.cancel().await;
                return Err(Error::Interrupted(self.scheduler.to_string()));
            }
            // A scheduler that does not answer makes no progress.
            let registered = self.look().await.unwrap_or(0);
            let arrived = self.arrived.load(Ordering::Relaxed);
            if self.best.grows(self.tasks, registered, arrived) {
                self.moved = Instant::now();
            }
            (self.watch.on_event)(&QueryEvent::Progress(Progress {
                executors: registered,
                stages: self.tasks.stages,
                stages_done: self.tasks.stages_done,
                tasks_done: self.tasks.done,
                tasks_running: self.tasks.running,
            }));
            let lost = self.suspect().await;
            if lost.is_any() {
                self.cancel().await;
                return Ok(Ended::Lost(lost.sentence()));
            }
            if self.moved.elapsed() >= self.watch.limit {
                return self.stalled().await;
            }
        }
    }

    /// Its number at the scheduler, once it has one.
    fn id(&self) -> Option<String> {
        submitted(&self.plan)
            .and_then(DistributedQueryExec::job_id)
            .map(|id| id.to_string())
    }

    /// Sees how far it is; how many executors are registered.
    async fn look(&mut self) -> Result<usize, NoAnswer> {
        if let Some(id) = self.id()
            && let Some(tasks) = self.api.tasks(&id).await?
        {
            self.tasks = tasks;
        }
        let registered = self.api.executors().await?;
        let count = registered.len();
        let is_new = |one: &Executor| self.executors.iter().all(|(known, _)| known != one);
        let new = registered.into_iter().filter(is_new).collect();
        self.executors.extend(reached(new).await);
        Ok(count)
    }

    /// Its rows, unless some of them may be there twice.
    async fn succeeded(&mut self, batches: Vec<RecordBatch>) -> Result<Ended, Error> {
        if self.id().is_none() {
            // It ran on this machine, as what asks for no table does.
            return Ok(Ended::Rows(batches));
        }
        self.look().await.map_err(silent(self.scheduler))?;
        if self.tasks.lost == 0 {
            return Ok(Ended::Rows(batches));
        }
        Ok(Ended::Lost(self.lost().await.sentence()))
    }

    async fn failed(&mut self, source: DataFusionError) -> Result<Ended, Error> {
        let failed = |source| Error::Cluster {
            scheduler: self.scheduler.to_string(),
            source: Box::new(source),
        };
        if self.look().await.is_err() {
            self.scheduler.answers()?;
            return Err(failed(source));
        }
        let lost = self.lost().await;
        if lost.is_any() {
            self.cancel().await;
            return Ok(Ended::Lost(lost.sentence()));
        }
        Err(failed(source))
    }

    /// It made no progress for as long as it may.
    async fn stalled(&mut self) -> Result<Ended, Error> {
        let scheduler = || self.scheduler.to_string();
        let registered = match self.api.executors().await {
            Ok(registered) => registered,
            Err(NoAnswer::Off) => Vec::new(),
            Err(error @ NoAnswer::Http(_)) => {
                self.scheduler.answers()?;
                return Err(silent(self.scheduler)(error));
            }
        };
        let lost = self.lost().await;
        self.cancel().await;
        if registered.is_empty() && !lost.is_any() {
            return Err(Error::NoExecutors {
                scheduler: scheduler(),
                authority: self.scheduler.authority(),
                waited: self.watch.limit,
            });
        }
        if lost.is_any() && !self.last {
            return Ok(Ended::Lost(lost.sentence()));
        }
        let rolled_back = lost.is_any() || self.before.is_some();
        let now = lost.is_any().then(|| lost.sentence());
        let unreached = unreached(registered).await;
        let lost = now.or_else(|| self.before.clone()).or(unreached);
        // What was rolled back before it could be cancelled leaves executors booked, and this submission waits for them.
        let booked = self.policy == Policy::Push && rolled_back;
        Err(Error::Stalled {
            scheduler: scheduler(),
            waited: self.watch.limit,
            lost,
            done: format!(
                "{} of {} and {} were done",
                self.tasks.stages_done,
                many(self.tasks.stages, "stage"),
                many(self.tasks.done, "task")
            ),
            booked,
        })
    }

    /// Asks the scheduler to end it. Where it cannot be asked, nothing more can be done from here.
    async fn cancel(&self) {
        if let Some(id) = self.id() {
            let _ = self.api.cancel(&id).await;
        }
    }

    /// Finds lost executors and tasks, when a task was lost or nothing has moved for a while.
    async fn suspect(&mut self) -> Lost {
        let still = self.moved.elapsed() >= SUSPECT && self.asked.elapsed() >= SUSPECT;
        if self.tasks.lost == 0 && !still {
            return Lost::default();
        }
        self.asked = Instant::now();
        self.lost().await
    }

    /// Executors that could be reached from here and cannot now, or are not registered any more.
    async fn lost(&self) -> Lost {
        let registered = self.api.executors().await;
        let mut lost = Lost {
            executors: Vec::new(),
            tasks: self.tasks.lost,
        };
        let known = self.executors.iter().filter(|(_, before)| *before);
        let now = reached(known.map(|(executor, _)| executor.clone()).collect()).await;
        for (executor, _) in &self.executors {
            let gone = (registered.as_ref()).is_ok_and(|those| !those.contains(executor));
            if gone || now.contains(&(executor.clone(), false)) {
                lost.executors
                    .push(format!("{}:{}", executor.host, executor.port));
            }
        }
        lost
    }
}

/// Tries the executors: tells of each whether it accepts a connection.
async fn reached(executors: Vec<Executor>) -> Vec<(Executor, bool)> {
    let connect = async |executor: Executor| {
        let address = (executor.host.as_str(), executor.port);
        let connected = timeout(CONNECT, TcpStream::connect(address)).await;
        let reached = matches!(connected, Ok(Ok(_)));
        (executor, reached)
    };
    let asked = executors.into_iter().map(|one| tokio::spawn(connect(one)));
    let mut found = Vec::new();
    for one in asked.collect::<Vec<_>>() {
        // One that panicked is one that nothing is known of.
        found.extend(one.await);
    }
    found
}

/// Those of these executors that accept no connection, in a sentence: they are registered for a while after their end.
async fn unreached(executors: Vec<Executor>) -> Option<String> {
    let away: Vec<String> = (reached(executors).await.into_iter())
        .filter(|(_, reached)| !reached)
        .map(|(executor, _)| format!("{}:{}", executor.host, executor.port))
        .collect();
    match away.as_slice() {
        [] => None,
        [one] => Some(format!("the executor at {one} cannot be reached")),
        many => Some(format!(
            "the executors at {} cannot be reached",
            many.join(" and ")
        )),
    }
}

/// Executors and tasks that a job lost.
#[derive(Default)]
struct Lost {
    executors: Vec<String>,
    tasks: usize,
}

impl Lost {
    fn is_any(&self) -> bool {
        self.tasks > 0 || !self.executors.is_empty()
    }

    fn sentence(&self) -> String {
        match self.executors.as_slice() {
            [] if self.tasks == 1 => "the result of a task was lost".to_owned(),
            [] => format!("the results of {} tasks were lost", self.tasks),
            [one] => format!("the executor at {one} was lost"),
            many => format!("the executors at {} were lost", many.join(" and ")),
        }
    }
}

/// The part of a plan that runs on the cluster.
fn submitted(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedQueryExec<LogicalPlanNode>> {
    plan.downcast_ref()
        .or_else(|| plan.children().into_iter().find_map(submitted))
}

/// The rows of a plan; each batch is counted when it arrives.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    arrived: Arc<AtomicUsize>,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let mut stream = execute_stream(plan, context)?;
    let mut batches = Vec::new();
    while let Some(batch) = queries::next(&mut stream).await {
        batches.push(batch?);
        arrived.fetch_add(1, Ordering::Relaxed);
    }
    Ok(batches)
}
