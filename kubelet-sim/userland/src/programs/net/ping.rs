//! `ping`: asks a host again and again whether it is there.
//!
//! Corresponds to busybox's ping.

use crate::network::resolver::{Family, resolve};
use crate::options;
use crate::process::proc::{Outcome, Proc};
use crate::programs::running::duration;
use std::net::IpAddr;
use std::time::Duration;

/// The round trip that is shown: nothing is measured.
const ROUND_TRIP: &str = "0.061";
const PAYLOAD_BYTES: usize = 56;

pub async fn ping(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "c:i:W:w:s:I:t:nq46A");
    let Some(host) = options.operands.first() else { return proc.fail("ping: missing host", 1).await };
    let family = match (options.has('4'), options.has('6') || argv[0].ends_with('6')) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let address = match resolve(proc, host, family).await.ok().and_then(|found| found.first().copied()) {
        Some(address) => address,
        None => return proc.fail(&format!("ping: bad address '{host}'"), 1).await,
    };
    let count: Option<u32> = options.value('c').and_then(|text| text.parse().ok());
    let size: usize = options.value('s').and_then(|text| text.parse().ok()).unwrap_or(PAYLOAD_BYTES);
    let seconds = |letter| options.value(letter).and_then(duration);
    let (interval, wait) = (seconds('i').unwrap_or(Duration::from_secs(1)), seconds('W'));
    let until = proc.after(seconds('w'));
    let is_quiet = options.has('q');
    proc.print(&format!("PING {host} ({address}): {size} data bytes\n")).await?;
    let (mut sent, mut received) = (0_u32, 0_u32);
    loop {
        let is_there = proc.ping(address).await;
        if is_there && !is_quiet {
            let (bytes, time_to_live) = (size + 8, if matches!(address, IpAddr::V4(_)) { "ttl=63" } else { "ttl=64" });
            proc.print(&format!("{bytes} bytes from {address}: seq={sent} {time_to_live} time={ROUND_TRIP} ms\n"))
                .await?;
        }
        sent += 1;
        received += u32::from(is_there);
        let is_last = count.is_some_and(|count| sent >= count);
        let pause = match (is_last, is_there) {
            (true, true) => break,
            (true, false) => wait.unwrap_or(Duration::from_secs(10)),
            (false, _) => interval,
        };
        proc.sleep(pause.max(Duration::from_millis(10))).await;
        if is_last || until.is_some_and(|until| proc.now() >= until) {
            break;
        }
    }
    let loss = 100 * (sent - received) / sent;
    proc.print(&format!(
        "\n--- {host} ping statistics ---\n{sent} packets transmitted, {received} packets received, {loss}% packet loss\n"
    ))
    .await?;
    if received > 0 {
        proc.print(&format!("round-trip min/avg/max = {ROUND_TRIP}/{ROUND_TRIP}/{ROUND_TRIP} ms\n")).await?;
    }
    Ok(i32::from(received == 0))
}
