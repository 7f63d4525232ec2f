//! Child processes of one program, some of which run at the same time.

use crate::cpu_limit;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub arguments: Vec<String>,
    /// Text for its standard input.
    pub input: String,
}

/// What a process has left behind.
#[derive(Clone, Debug)]
pub struct Ended {
    pub is_success: bool,
    /// True if the limit of its CPU time has ended it.
    pub is_out_of_cpu: bool,
    /// Its status in words, such as `exit status: 1`.
    pub status: String,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Reads the JSON that the process has printed last, or says why there is none. What one prints that fails afterwards is no result.
    pub fn printed<T: DeserializeOwned>(&self) -> Result<T, String> {
        let last = self.stdout.lines().next_back().filter(|_| self.is_success);
        let last = last.and_then(|line| serde_json::from_str(line).ok());
        last.ok_or_else(|| self.stderr.lines().next_back().unwrap_or(&self.status).to_owned())
    }
}

/// Starts a process for each order, `jobs` at the same time, and passes on the results in the order of the orders.
pub fn run<T, E: From<io::Error>>(
    program: &Path,
    jobs: usize,
    orders: impl IntoIterator<Item = (T, Order)>,
    mut ended: impl FnMut(T, Ended) -> Result<(), E>,
) -> Result<(), E> {
    run_until(program, jobs, orders, |about, end| ended(about, end).map(ControlFlow::Continue))
}

/// Does the same until a result is enough. The processes that still run are ended then, so the results that are passed on are
/// the same for every number of jobs.
pub fn run_until<T, E: From<io::Error>>(
    program: &Path,
    jobs: usize,
    orders: impl IntoIterator<Item = (T, Order)>,
    mut ended: impl FnMut(T, Ended) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut waiting = orders.into_iter();
    let mut running = Running(VecDeque::new());
    loop {
        while running.0.len() < jobs.max(1)
            && let Some((about, order)) = waiting.next()
        {
            running.0.push_back((about, start(program, &order)?));
        }
        // The oldest first: its result is the next to pass on, and the others go on meanwhile.
        let Some((about, child)) = running.0.pop_front() else { return Ok(()) };
        if ended(about, finish(child)?)?.is_break() {
            return Ok(());
        }
    }
}

/// Processes whose results are wanted, the oldest first. Those that nobody waits for any more are ended.
struct Running<T>(VecDeque<(T, Child)>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Runs one process.
pub fn run_one(program: &Path, order: &Order) -> io::Result<Ended> {
    finish(start(program, order)?)
}

fn start(program: &Path, order: &Order) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(&order.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.display()));
    let mut child = command.spawn().map_err(named)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that reads no input may have ended already.
        let _ = stdin.write_all(order.input.as_bytes());
    }
    Ok(child)
}

fn finish(child: Child) -> io::Result<Ended> {
    let output = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Ok(Ended {
        is_success: output.status.success(),
        is_out_of_cpu: cpu_limit::is_exceeded(output.status),
        status: output.status.to_string(),
        stdout,
        stderr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_orders() {
        let order = |text: &str| Order { arguments: vec!["-".to_owned()], input: text.to_owned() };
        let orders = ["first", "second", "third"].map(|text| (text, order(text)));
        let mut found = Vec::new();
        let result: Result<(), io::Error> = run(Path::new("cat"), 2, orders, |text, ended| {
            assert!(ended.is_success);
            assert_eq!(text, ended.stdout);
            found.push(text);
            Ok(())
        });
        result.unwrap();
        assert_eq!(found, ["first", "second", "third"]);
    }

    /// Returns an order for a shell.
    fn script(text: &str) -> Order {
        Order { arguments: vec!["-c".to_owned(), text.to_owned()], input: String::new() }
    }

    #[test]
    fn nothing_is_passed_on_after_the_result_that_is_enough() {
        for jobs in 1..4 {
            let orders = (1..=4).map(|number| (number, script(if number > 2 { "exec sleep 600" } else { "true" })));
            let mut found = Vec::new();
            let result: Result<(), io::Error> = run_until(Path::new("sh"), jobs, orders, |number, _| {
                found.push(number);
                Ok(if number == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
            result.unwrap();
            assert_eq!(found, [1, 2], "{jobs} jobs");
        }
    }

    /// The shell sets the limit as a process of ours does.
    #[test]
    fn a_program_without_an_end_is_ended() {
        let ended = run_one(Path::new("sh"), &script("ulimit -c 0; ulimit -S -t 1; while :; do :; done")).unwrap();
        assert!(ended.is_out_of_cpu && !ended.is_success, "{}", ended.status);
        assert!(!run_one(Path::new("sh"), &script("exit 1")).unwrap().is_out_of_cpu);
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = run_one(Path::new("/no/such/program"), &Order::default()).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/program: "), "{error}");
    }
}
