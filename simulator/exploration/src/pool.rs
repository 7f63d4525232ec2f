//! Child processes of one program, some of which run at the same time.

use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, Write};
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
    /// Its status in words, such as `exit status: 1`.
    pub status: String,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Reads the JSON that the process has printed last, or says why there is none.
    pub fn printed<T: DeserializeOwned>(&self) -> Result<T, String> {
        let last = self.stdout.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
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
    let mut waiting = orders.into_iter();
    let mut running: VecDeque<(T, Child)> = VecDeque::new();
    loop {
        while running.len() < jobs.max(1)
            && let Some((about, order)) = waiting.next()
        {
            running.push_back((about, start(program, &order)?));
        }
        // The oldest first: its result is the next to pass on, and the others go on meanwhile.
        let Some((about, child)) = running.pop_front() else { return Ok(()) };
        ended(about, finish(child)?)?;
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
    Ok(Ended { is_success: output.status.success(), status: output.status.to_string(), stdout, stderr })
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

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = run_one(Path::new("/no/such/program"), &Order::default()).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/program: "), "{error}");
    }
}
