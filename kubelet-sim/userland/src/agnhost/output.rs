//! Sub-commands of agnhost that only print: `entrypoint-tester`, `logs-generator`, `help`.

use crate::process::proc::{Outcome, Proc};
use std::time::Duration;

pub async fn help(proc: &mut Proc) -> Outcome {
    proc.print("Usage:\n  app [command]\n").await?;
    Ok(0)
}

/// Prints its own words, as Go prints a slice.
pub async fn entrypoint_tester(proc: &mut Proc, argv: &[String]) -> Outcome {
    proc.print(&format!("[{}]\n", argv.join(" "))).await?;
    Ok(0)
}

/// Writes lines that look like requests, evenly over a time.
pub async fn logs_generator(proc: &mut Proc, argv: &[String]) -> Outcome {
    let value = |names: [&str; 2]| {
        let own = argv.iter().find_map(|word| names.iter().find_map(|name| word.strip_prefix(&format!("{name}="))));
        let next = || argv.windows(2).find(|pair| names.contains(&pair[0].as_str())).map(|pair| pair[1].as_str());
        own.or_else(next).unwrap_or_default().to_owned()
    };
    let lines: u32 = value(["--log-lines-total", "-t"]).parse().unwrap_or(0);
    let duration = crate::programs::running::duration(&value(["--run-duration", "-d"])).unwrap_or_default();
    if lines == 0 {
        return proc.fail("Invalid total number of lines: 0", 255).await;
    }
    if duration.is_zero() {
        return proc.fail("Invalid duration: 0s", 255).await;
    }
    let mut state = 88_172_645_463_325_252_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for number in 0..lines {
        let method = ["GET", "POST", "PUT"][draw(3) as usize];
        let namespace = ["kube-system", "default", "ns"][draw(3) as usize];
        let length = 3 + draw(2);
        let name: String = (0..length).map(|_| char::from(b'a' + draw(26) as u8)).collect();
        let status = 200 + draw(400);
        let time = proc.now().strftime("I%m%d %H:%M:%S.%6f").to_string();
        let url = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let line = format!("{time} {:>7} logs_generator.go:76] {number} {method} {url} {status}\n", proc.pid);
        proc.error(&line).await?;
        proc.sleep((duration / lines).max(Duration::from_millis(1))).await;
    }
    Ok(0)
}
