//! `redis-server` and `redis-cli`: a store of texts, with the commands that examples use.

use crate::network::fetch::{FetchError, FetchOptions, connect};
use crate::network::serve::{Port, listen, serve};
use crate::process::network::{ConnectError, Connection, Protocol};
use crate::process::proc::{Outcome, Proc, Stop};
use crate::process::sockets::Received;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 6379;
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a command that is not complete yet.
const MAX_COMMAND_BYTES: usize = 1 << 20;
/// Entries of one database.
const MAX_ENTRIES: usize = 10_000;

/// A value of the store.
#[derive(Clone, Debug)]
enum Stored {
    Text(String),
    List(VecDeque<String>),
}

type Store = Arc<Mutex<BTreeMap<String, Stored>>>;

pub async fn redis_server(proc: &mut Proc, argv: &[String]) -> Outcome {
    let given = argv.windows(2).find(|pair| pair[0] == "--port").and_then(|pair| pair[1].parse().ok());
    let port = Port::tcp(given.unwrap_or(PORT));
    if listen(proc, &[port]).is_err() {
        return proc.fail("Could not create server TCP listening socket *: bind: Address already in use", 1).await;
    }
    let time = proc.now().strftime("%d %b %Y %H:%M:%S.%3f").to_string();
    proc.print(&format!("{}:M {time} * Ready to accept connections tcp\n", proc.pid)).await?;
    let store = Store::default();
    serve(proc, &[port], |proc, connection| Box::pin(client_thread(proc, connection, store.clone()))).await
}

async fn client_thread(proc: Proc, connection: Connection, store: Store) -> Result<(), Stop> {
    let mut unread = Vec::new();
    loop {
        match command(&unread) {
            Some((words, length)) => {
                unread.drain(..length);
                let answer = run(&store, &words);
                let is_over = words.first().is_some_and(|name| name.eq_ignore_ascii_case("quit"));
                if proc.send(&connection, answer.as_bytes()).await.is_err() || is_over {
                    return Ok(());
                }
            }
            None if unread.len() > MAX_COMMAND_BYTES => return Ok(()),
            None => match proc.receive(&connection, None).await {
                Received::Bytes(bytes) => unread.extend(bytes),
                Received::End | Received::TimedOut => return Ok(()),
            },
        }
    }
}

/// Reads a command, as a line of words or as an array of texts; returns it with its length.
fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| {
        let end = bytes.get(at..)?.iter().position(|byte| *byte == b'\n')? + at;
        let text = String::from_utf8_lossy(&bytes[at..end]).trim_end_matches('\r').to_owned();
        Some((text, end + 1))
    };
    let (first, mut at) = line(0)?;
    let Some(count) = first.strip_prefix('*') else {
        return Some((first.split_whitespace().map(str::to_owned).collect(), at));
    };
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().ok()?.min(1_000) {
        let (head, start) = line(at)?;
        let length = head.strip_prefix('$')?.parse::<usize>().ok()?.min(MAX_COMMAND_BYTES);
        words.push(String::from_utf8_lossy(bytes.get(start..start + length)?).into_owned());
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

const NOTHING: &str = "$-1\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

fn run(store: &Store, words: &[String]) -> String {
    let mut store = store.lock();
    let Some((name, rest)) = words.split_first() else { return String::new() };
    let name = name.to_ascii_lowercase();
    let count = |number: usize| format!(":{number}\r\n");
    let values = |values: Vec<String>| {
        format!("*{}\r\n{}", values.len(), values.iter().map(|value| bulk(value)).collect::<String>())
    };
    match (name.as_str(), rest) {
        ("ping", []) => "+PONG\r\n".to_owned(),
        ("ping" | "echo", [text]) => bulk(text),
        ("quit" | "select" | "client" | "auth", _) => "+OK\r\n".to_owned(),
        ("set", [key, value, ..]) => {
            if store.len() >= MAX_ENTRIES && !store.contains_key(key) {
                return "-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_owned();
            }
            store.insert(key.clone(), Stored::Text(value.clone()));
            "+OK\r\n".to_owned()
        }
        ("get", [key]) => match store.get(key) {
            Some(Stored::Text(value)) => bulk(value),
            Some(Stored::List(_)) => WRONG_TYPE.to_owned(),
            None => NOTHING.to_owned(),
        },
        ("del", keys) => count(keys.iter().filter(|key| store.remove(*key).is_some()).count()),
        ("exists", keys) => count(keys.iter().filter(|key| store.contains_key(*key)).count()),
        ("incr", [key]) => add(&mut store, key, 1),
        ("decr", [key]) => add(&mut store, key, -1),
        ("incrby", [key, by]) => add(&mut store, key, by.parse().unwrap_or(0)),
        ("keys", [_]) => values(store.keys().cloned().collect()),
        ("dbsize", []) => count(store.len()),
        ("flushall" | "flushdb", _) => {
            store.clear();
            "+OK\r\n".to_owned()
        }
        ("lpush" | "rpush", [key, pushed @ ..]) if !pushed.is_empty() => {
            match store.entry(key.clone()).or_insert_with(|| Stored::List(VecDeque::new())) {
                Stored::List(list) => {
                    for value in pushed {
                        if name == "lpush" { list.push_front(value.clone()) } else { list.push_back(value.clone()) }
                    }
                    list.truncate(MAX_ENTRIES);
                    count(list.len())
                }
                Stored::Text(_) => WRONG_TYPE.to_owned(),
            }
        }
        ("lpop" | "rpop", [key]) => match store.get_mut(key) {
            Some(Stored::List(list)) => {
                let taken = if name == "lpop" { list.pop_front() } else { list.pop_back() };
                if list.is_empty() {
                    store.remove(key);
                }
                taken.map_or(NOTHING.to_owned(), |taken| bulk(&taken))
            }
            Some(Stored::Text(_)) => WRONG_TYPE.to_owned(),
            None => NOTHING.to_owned(),
        },
        ("llen", [key]) => match store.get(key) {
            Some(Stored::List(list)) => count(list.len()),
            Some(Stored::Text(_)) => WRONG_TYPE.to_owned(),
            None => count(0),
        },
        ("lrange", [key, _, _]) => match store.get(key) {
            Some(Stored::List(list)) => values(list.iter().cloned().collect()),
            Some(Stored::Text(_)) => WRONG_TYPE.to_owned(),
            None => values(Vec::new()),
        },
        ("info", _) => {
            bulk("# Server\r\nredis_version:8.0.0\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n")
        }
        ("config", [get, name]) if get.eq_ignore_ascii_case("get") => {
            let value = match name.as_str() {
                "maxmemory" => "0",
                "maxmemory-policy" => "noeviction",
                _ => return values(Vec::new()),
            };
            values(vec![name.clone(), value.to_owned()])
        }
        ("get" | "incr" | "decr" | "set" | "keys" | "llen", _) => {
            format!("-ERR wrong number of arguments for '{name}' command\r\n")
        }
        _ => format!("-ERR unknown command '{name}'\r\n"),
    }
}

fn add(store: &mut BTreeMap<String, Stored>, key: &str, by: i64) -> String {
    let present = match store.get(key) {
        Some(Stored::Text(value)) => value.parse::<i64>().ok(),
        Some(Stored::List(_)) => return WRONG_TYPE.to_owned(),
        None => Some(0),
    };
    match present.and_then(|present| present.checked_add(by)) {
        Some(sum) => {
            store.insert(key.to_owned(), Stored::Text(sum.to_string()));
            format!(":{sum}\r\n")
        }
        None => "-ERR value is not an integer or out of range\r\n".to_owned(),
    }
}

/// Sends one command, or the lines of its input, and prints the answers.
pub async fn redis_cli(proc: &mut Proc, argv: &[String]) -> Outcome {
    let (mut host, mut port, mut words) = ("127.0.0.1".to_owned(), PORT, argv[1..].to_vec());
    while words.len() >= 2 && words[0].starts_with('-') {
        let value = words.remove(1);
        match words.remove(0).as_str() {
            "-h" => host = value,
            "-p" => port = value.parse().unwrap_or(PORT),
            // The number of a database and the password change nothing here.
            "-n" | "-a" => {}
            other => return proc.fail(&format!("Unrecognized option or bad number of args for: '{other}'"), 1).await,
        }
    }
    let connection = match connect(proc, (&host, port), Protocol::Tcp, &FetchOptions::default()).await {
        Ok(connection) => connection,
        Err(error) => {
            let why = match error {
                FetchError::Connect(_, ConnectError::Refused) => "Connection refused",
                FetchError::Connect(_, ConnectError::Unreachable) => "No route to host",
                FetchError::Resolve(_) => "Name or service not known",
                _ => "Connection timed out",
            };
            return proc.fail(&format!("Could not connect to Redis at {host}:{port}: {why}"), 1).await;
        }
    };
    if !words.is_empty() {
        return ask(proc, &connection, &words).await;
    }
    while let Ok(Some(line)) = proc.read_line(0).await {
        let words: Vec<String> = String::from_utf8_lossy(&line).split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() {
            ask(proc, &connection, &words).await?;
        }
    }
    Ok(0)
}

async fn ask(proc: &mut Proc, connection: &Connection, words: &[String]) -> Outcome {
    let sent: String = words.iter().map(|word| bulk(word)).collect();
    proc.send(connection, format!("*{}\r\n{sent}", words.len()).as_bytes()).await?;
    let Received::Bytes(answer) = proc.receive(connection, proc.after(Some(ANSWER_LIMIT))).await else {
        return proc.fail("Error: Server closed the connection", 1).await;
    };
    let text = String::from_utf8_lossy(&answer).into_owned();
    proc.print(&shown(&text)).await?;
    Ok(0)
}

/// Returns an answer as the client prints it when its output is no terminal.
fn shown(answer: &str) -> String {
    let mut lines = answer.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let texts: Vec<&str> = match first.split_at_checked(1) {
        Some(("+" | ":", rest)) => vec![rest],
        Some(("-", rest)) => vec![rest],
        Some(("$", "-1")) => vec![""],
        Some(("$", _)) => vec![answer[first.len()..].trim_start_matches("\r\n").trim_end_matches("\r\n")],
        _ => lines.filter(|line| !line.starts_with('$') && !line.is_empty()).collect(),
    };
    texts.iter().map(|text| format!("{text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_as_lines_or_arrays() {
        let store = Store::default();
        let say = |line: &str| run(&store, &command(line.as_bytes()).unwrap().0);
        assert_eq!(say("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n1 2\r\n"), "+OK\r\n");
        assert_eq!(say("get a\n"), "$3\r\n1 2\r\n");
        assert_eq!(say("incr a\n"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!((say("incr n\n").as_str(), say("incr n\r\n").as_str()), (":1\r\n", ":2\r\n"));
        assert_eq!(say("lpush l x y\n"), ":2\r\n");
        assert_eq!(say("get l\n"), WRONG_TYPE);
        assert_eq!(command(b"*2\r\n$3\r\nGET\r\n$1\r\n"), None, "the rest has not arrived");
        assert_eq!(shown("$3\r\n1 2\r\n"), "1 2\n");
        assert_eq!(shown("*2\r\n$1\r\na\r\n$1\r\nb\r\n"), "a\nb\n");
    }
}
