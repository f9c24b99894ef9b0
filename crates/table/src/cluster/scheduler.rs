//! REST API of a Ballista scheduler: its policy, its executors, the tasks of a job.
//!
//! It must never decide what to do about it.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Longest time for one answer of the scheduler.
const ANSWER: Duration = Duration::from_secs(5);

/// The REST API of a scheduler, at the port of its gRPC API.
pub(super) struct Api {
    client: reqwest::Client,
    base: String,
}

/// Reason why the scheduler did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// It was built or started without the API.
    #[error("its REST API is off")]
    Off,
    /// The connection or the answer failed.
    #[error("{0}")]
    Http(#[from] reqwest::Error),
}

/// Policy by which tasks reach executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The scheduler sends them, and keeps account of what executors have free.
    Push,
    /// Executors ask for them.
    Pull,
}

/// An executor that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Executor {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The tasks of a job at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tasks {
    pub(super) stages: usize,
    pub(super) stages_done: usize,
    pub(super) done: usize,
    pub(super) running: usize,
    /// Tasks whose executor, or whose result, was lost.
    pub(super) lost: usize,
}

#[derive(Deserialize)]
struct State {
    scheduling_policy: String,
}

#[derive(Deserialize)]
struct Stages {
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct Stage {
    stage_status: String,
    tasks: Vec<Option<Task>>,
}

#[derive(Deserialize)]
struct Task {
    status: Status,
}

#[derive(Deserialize)]
enum Status {
    Running,
    Successful,
    Failed { reason: String },
}

/// The reason why a task failed that is no fault of the query.
const LOST: [&str; 3] = ["ExecutorLost", "ResultLost", "FetchPartitionError"];

impl Tasks {
    fn of(stages: &[Stage]) -> Self {
        let mut tasks = Self {
            stages: stages.len(),
            stages_done: (stages.iter())
                .filter(|stage| stage.stage_status == "Successful")
                .count(),
            ..Self::default()
        };
        for task in stages.iter().flat_map(|stage| stage.tasks.iter().flatten()) {
            match &task.status {
                Status::Running => tasks.running += 1,
                Status::Successful => tasks.done += 1,
                Status::Failed { reason } if LOST.contains(&reason.as_str()) => tasks.lost += 1,
                Status::Failed { .. } => {}
            }
        }
        tasks
    }
}

impl Api {
    /// The API of the scheduler at `authority`, `HOST:PORT`.
    pub(super) fn at(authority: &str) -> Result<Self, NoAnswer> {
        // As Ballista's own connections, it goes straight there.
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER)
            .build()?;
        Ok(Self {
            client,
            base: format!("http://{authority}/api"),
        })
    }

    /// Gets the object at a path; none when the scheduler knows of none.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, NoAnswer> {
        let url = format!("{}/{path}", self.base);
        let answer = self.client.get(url).send().await?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Ok(Some(answer.error_for_status()?.json().await?))
    }

    pub(super) async fn policy(&self) -> Result<Policy, NoAnswer> {
        let state: State = self.get("state").await?.ok_or(NoAnswer::Off)?;
        Ok(match state.scheduling_policy.as_str() {
            "pull-staged" => Policy::Pull,
            _ => Policy::Push,
        })
    }

    pub(super) async fn executors(&self) -> Result<Vec<Executor>, NoAnswer> {
        self.get("executors").await?.ok_or(NoAnswer::Off)
    }

    /// The tasks of a job; nothing before it is planned.
    pub(super) async fn tasks(&self, job: &str) -> Result<Option<Tasks>, NoAnswer> {
        let stages: Option<Stages> = self.get(&format!("job/{job}/stages")).await?;
        Ok(stages.map(|stages| Tasks::of(&stages.stages)))
    }

    /// Asks that a job be ended. A job that has ended stays as it is.
    pub(super) async fn cancel(&self, job: &str) -> Result<(), NoAnswer> {
        let url = format!("{}/job/{job}", self.base);
        self.client.patch(url).send().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_by_what_became_of_them() {
        let said = r#"{"stages": [
            {"stage_id": "1", "stage_status": "Successful", "input_rows": 3, "tasks": [
                {"id": 0, "status": {"Failed": {"reason": "ResultLost", "error": "Executor x lost"}}},
                {"id": 1, "status": "Successful"}]},
            {"stage_id": "2", "stage_status": "Running", "tasks": [
                {"id": 0, "status": "Running"}, null,
                {"id": 1, "status": {"Failed": {"reason": "IoError", "error": "again"}}}]},
            {"stage_id": "3", "stage_status": "UnResolved", "tasks": []}]}"#;
        let stages: Stages = serde_json::from_str(said).unwrap();
        let expected = Tasks {
            stages: 3,
            stages_done: 1,
            done: 1,
            running: 1,
            lost: 1,
        };
        assert_eq!(Tasks::of(&stages.stages), expected);
    }
}
