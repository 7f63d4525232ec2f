//! Programs that tell who and where a process is: `id`, `whoami`, `hostname`, `env`, `uname`, `stty`.

use crate::options;
use crate::process::descriptor::Descriptor;
use crate::process::proc::{Outcome, Proc};
use file_tree::actor::Actor;

/// Returns the name that a file such as `/etc/passwd` gives to a number.
fn name_of(proc: &Proc, file: &str, id: u32) -> Option<String> {
    let bytes = proc.tree().read(&Actor::root(proc.now()), file).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let found = text
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|line| line.get(2).and_then(|number| number.parse().ok()) == Some(id));
    match found {
        Some(line) => Some(line[0].to_owned()),
        None => (id == 0).then(|| "root".to_owned()),
    }
}

pub fn user_name(proc: &Proc, uid: u32) -> Option<String> {
    name_of(proc, "/etc/passwd", uid)
}

pub fn group_name(proc: &Proc, gid: u32) -> Option<String> {
    name_of(proc, "/etc/group", gid)
}

pub async fn id(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "ugGnr");
    let Actor { uid, gid, groups, .. } = proc.user.clone();
    let mut all = vec![gid];
    all.extend(groups.iter().filter(|group| **group != gid));
    let user = user_name(proc, uid);
    let shown =
        |id: u32, name: Option<String>| if options.has('n') { name.unwrap_or(id.to_string()) } else { id.to_string() };
    let line = if options.has('u') {
        shown(uid, user)
    } else if options.has('g') {
        shown(gid, group_name(proc, gid))
    } else if options.has('G') {
        all.iter().map(|id| shown(*id, group_name(proc, *id))).collect::<Vec<_>>().join(" ")
    } else {
        let named = |id: u32, name: Option<String>| name.map_or(id.to_string(), |name| format!("{id}({name})"));
        let groups: Vec<String> = all.iter().map(|id| named(*id, group_name(proc, *id))).collect();
        format!("uid={} gid={} groups={}", named(uid, user), named(gid, group_name(proc, gid)), groups.join(","))
    };
    proc.print(&format!("{line}\n")).await?;
    Ok(0)
}

pub async fn whoami(proc: &mut Proc, _argv: &[String]) -> Outcome {
    let uid = proc.user.uid;
    match user_name(proc, uid) {
        Some(name) => proc.print(&format!("{name}\n")).await?,
        None => return proc.fail(&format!("whoami: unknown uid {uid}"), 1).await,
    }
    Ok(0)
}

pub async fn hostname(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "fsid");
    if let Some(name) = options.operands.first() {
        return proc.fail(&format!("hostname: sethostname '{name}': Operation not permitted"), 1).await;
    }
    let name = proc.kernel.hostname.clone();
    let actor = Actor::root(proc.now());
    let hosts = proc.tree().read(&actor, "/etc/hosts").unwrap_or_default();
    let hosts = String::from_utf8_lossy(&hosts).into_owned();
    let own = hosts.lines().rev().find(|line| line.split_whitespace().skip(1).any(|known| known == name));
    let line = if options.has('i') {
        own.and_then(|line| line.split_whitespace().next()).unwrap_or("127.0.0.1").to_owned()
    } else if options.has('f') {
        own.and_then(|line| line.split_whitespace().nth(1)).unwrap_or(&name).to_owned()
    } else {
        name
    };
    proc.print(&format!("{line}\n")).await?;
    Ok(0)
}

/// Prints the environment, or runs a program with a changed one.
pub async fn env(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = &argv[1..];
    let before = proc.env.clone();
    loop {
        match words {
            [flag, rest @ ..] if flag == "-i" || flag == "-" => {
                proc.env.clear();
                words = rest;
            }
            [flag, name, rest @ ..] if flag == "-u" => {
                proc.env.remove(name);
                words = rest;
            }
            [flag, ..] if flag.starts_with('-') => {
                return proc.fail(&format!("env: unrecognized option: {}", &flag[1..]), 1).await;
            }
            [word, rest @ ..] if word.contains('=') => {
                let (name, value) = word.split_once('=').unwrap_or_default();
                proc.env.insert(name.to_owned(), value.to_owned());
                words = rest;
            }
            _ => break,
        }
    }
    let ended = match words.is_empty() {
        true => {
            let lines: String = proc.env.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            proc.print(&lines).await.map(|()| 0)
        }
        false => proc.launch(words).await,
    };
    proc.env = before;
    ended
}

pub async fn printenv(proc: &mut Proc, argv: &[String]) -> Outcome {
    if argv.len() == 1 {
        return env(proc, argv).await;
    }
    let mut code = 0;
    for name in &argv[1..] {
        match proc.env.get(name).cloned() {
            Some(value) => proc.print(&format!("{value}\n")).await?,
            None => code = 1,
        }
    }
    Ok(code)
}

pub async fn uname(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "asnrvmop");
    let host = proc.kernel.hostname.clone();
    let parts = [('s', "Linux"), ('n', &host), ('r', "6.1.0"), ('v', "#1 SMP"), ('m', "x86_64"), ('o', "Linux")];
    let is_default = !parts.iter().any(|(letter, _)| options.has(*letter)) && !options.has('a');
    let wanted =
        parts.iter().filter(|(letter, _)| options.has('a') || options.has(*letter) || is_default && *letter == 's');
    let line: Vec<&str> = wanted.map(|(_, text)| *text).collect();
    proc.print(&format!("{}\n", line.join(" "))).await?;
    Ok(0)
}

pub async fn nproc(proc: &mut Proc, _argv: &[String]) -> Outcome {
    let cpus = proc.kernel.machine.lock().cpus;
    proc.print(&format!("{cpus}\n")).await?;
    Ok(0)
}

pub async fn tty(proc: &mut Proc, _argv: &[String]) -> Outcome {
    let is_terminal = proc.descriptors.get(&0).is_some_and(Descriptor::is_terminal);
    proc.print(if is_terminal { "/dev/pts/0\n" } else { "not a tty\n" }).await?;
    Ok(i32::from(!is_terminal))
}

/// `stty size` prints the rows and columns of the terminal.
pub async fn stty(proc: &mut Proc, argv: &[String]) -> Outcome {
    if !proc.descriptors.get(&0).is_some_and(Descriptor::is_terminal) {
        return proc.fail("stty: standard input: Not a tty", 1).await;
    }
    if argv.get(1).is_none_or(|word| word != "size") || argv.len() > 2 {
        return proc.fail("usage: stty size", 1).await;
    }
    let size = *proc.kernel.terminal_size.lock();
    proc.print(&format!("{} {}\n", size.rows, size.columns)).await?;
    Ok(0)
}
