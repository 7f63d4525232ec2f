//! Serves `/debug/api_priority_and_fairness/…`: tables of levels, queues and waiting requests in plain text.
//!
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/apf_controller_debug.go.
//!
//! Deviation: the table of requests has those that wait, not those that are being served.

use super::Fairness;
use super::level::{About, State};

/// Rows of cells; the first row is the header.
type Rows = Vec<Vec<String>>;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Returns the page with this last path segment.
pub fn page(fairness: &Fairness, name: &str, with_details: bool) -> Option<String> {
    let rows = match name {
        "dump_priority_levels" => levels(fairness),
        "dump_queues" => queues(fairness),
        "dump_requests" => requests(fairness, with_details),
        _ => return None,
    };
    Some(aligned(&rows))
}

fn each_level(fairness: &Fairness, mut rows: Rows, rows_of: impl Fn(&str, &State, &mut Rows)) -> Rows {
    fairness.show();
    for (name, level) in &fairness.configuration.load().levels {
        level.look(|state| rows_of(name, state, &mut rows));
    }
    rows
}

fn levels(fairness: &Fairness) -> Rows {
    let head = row(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ]);
    each_level(fairness, vec![head], |name, state, rows| {
        let (set, tallies) = (&state.set, state.tallies);
        let is_idle = set.waiting == 0 && set.executing == 0;
        rows.push(vec![
            name.to_owned(),
            set.active_queues().to_string(),
            is_idle.to_string(),
            // `isQuiescing`: a removed level is no longer in the table.
            false.to_string(),
            set.waiting.to_string(),
            set.executing.to_string(),
            tallies.dispatched.to_string(),
            tallies.rejected.to_string(),
            tallies.timed_out.to_string(),
            tallies.cancelled.to_string(),
        ]);
    })
}

fn queues(fairness: &Fairness) -> Rows {
    let head = row(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ]);
    each_level(fairness, vec![head], |name, state, rows| {
        for (index, queue) in state.set.queues.iter().enumerate() {
            rows.push(vec![
                name.to_owned(),
                index.to_string(),
                queue.waiting.len().to_string(),
                queue.executing.to_string(),
                queue.seats_in_use.to_string(),
                seat_seconds(queue.next_dispatch_r),
                queue.initial_seats().to_string(),
                queue.max_seats().to_string(),
                seat_seconds(queue.total_work()),
            ]);
        }
    })
}

fn seat_seconds(seat_seconds: f64) -> String {
    format!("{seat_seconds:.8}ss")
}

fn requests(fairness: &Fairness, with_details: bool) -> Rows {
    let mut head = row(&[
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ]);
    if with_details {
        let details = ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
        head.extend(row(&details));
    }
    each_level(fairness, vec![head], |level, state, rows| {
        for (queue_index, queue) in state.set.queues.iter().enumerate() {
            for (index, waiting) in queue.waiting.iter().enumerate() {
                let About {
                    schema,
                    flow,
                    user,
                    verb,
                    path,
                    namespace,
                    name,
                    api_version,
                    resource,
                    subresource,
                    arrived,
                } = &waiting.ticket.about;
                let work = &waiting.work;
                let mut cells = vec![
                    level.to_owned(),
                    schema.clone(),
                    queue_index.to_string(),
                    index.to_string(),
                    flow.clone(),
                    arrived.clone(),
                    work.initial_seats.to_string(),
                    work.final_seats.to_string(),
                    format!("{:?}", work.additional_latency),
                    String::new(),
                ];
                if with_details {
                    cells.extend(
                        [user, verb, path, namespace, name, api_version, resource, subresource].map(String::clone),
                    );
                }
                rows.push(cells);
            }
        }
    })
}

/// Formats rows with aligned columns, separated by commas.
fn aligned(rows: &Rows) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count() + 2).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == row.len();
            let cell = if is_last { cell.clone() } else { format!("{cell},") };
            text.push_str(&if is_last { cell } else { format!("{cell:<width$}", width = widths[column]) });
        }
        text.push('\n');
    }
    text
}

#[test]
fn columns_stand_one_below_the_other() {
    let rows = vec![row(&["Name", "Count"]), row(&["workload-low", "7"])];
    assert_eq!(aligned(&rows), "Name,         Count\nworkload-low, 7\n");
}
