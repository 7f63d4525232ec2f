//! Programs about paths: `pwd`, `basename`, `dirname`, `readlink`, `realpath`, `which`.

use super::DEFAULT_PATH;
use super::files::base;
use crate::options;
use crate::process::proc::{Outcome, Proc};
use file_tree::place::{Access, join};

pub async fn pwd(proc: &mut Proc, _argv: &[String]) -> Outcome {
    let line = format!("{}\n", proc.user.working_dir);
    proc.print(&line).await?;
    Ok(0)
}

pub async fn basename(proc: &mut Proc, argv: &[String]) -> Outcome {
    let Some(path) = argv.get(1) else { return proc.fail("basename: missing operand", 1).await };
    let name = base(path);
    let cut = argv.get(2).and_then(|suffix| name.strip_suffix(suffix.as_str())).filter(|name| !name.is_empty());
    let line = format!("{}\n", cut.unwrap_or(name));
    proc.print(&line).await?;
    Ok(0)
}

pub async fn dirname(proc: &mut Proc, argv: &[String]) -> Outcome {
    let Some(path) = argv.get(1) else { return proc.fail("dirname: missing operand", 1).await };
    let trimmed = path.trim_end_matches('/');
    let folder = match trimmed.rsplit_once('/') {
        None if trimmed.is_empty() && !path.is_empty() => "/",
        None => ".",
        Some((folder, _)) if folder.trim_end_matches('/').is_empty() => "/",
        Some((folder, _)) => folder.trim_end_matches('/'),
    };
    proc.print(&format!("{folder}\n")).await?;
    Ok(0)
}

pub async fn readlink(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "fnve", "canonicalize" => 'f');
    let mut code = 0;
    for path in &options.operands {
        let (tree, actor) = (proc.tree(), proc.actor());
        let target = match options.has('f') {
            true => tree.entry(&actor, path, true).map(|entry| match entry.place {
                Some(place) => place.path,
                None => entry.path(),
            }),
            false => tree.read_link(&actor, path),
        };
        match target {
            Ok(target) => proc.print(&if options.has('n') { target } else { format!("{target}\n") }).await?,
            Err(_) => code = 1,
        }
    }
    Ok(code)
}

pub async fn realpath(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut code = 0;
    for path in &argv[1..] {
        match proc.tree().find(&proc.actor(), path, true) {
            Ok(place) => proc.print(&format!("{}\n", place.path)).await?,
            Err(error) => code = proc.fail(&format!("realpath: {path}: {error}"), 1).await?,
        }
    }
    Ok(code)
}

pub async fn which(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut code = 0;
    for name in &argv[1..] {
        let actor = proc.actor();
        let path = proc.env.get("PATH").map_or(DEFAULT_PATH, String::as_str).to_owned();
        let mut candidates = path.split(':').map(|folder| join(folder, name));
        match candidates.find(|path| proc.tree().allows(&actor, path, Access::Execute)) {
            Some(path) => proc.print(&format!("{path}\n")).await?,
            None => code = 1,
        }
    }
    Ok(code)
}
