//! Programs about the kernel: `ip`, `sysctl`, `hexdump`, and `nonewprivs` of Kubernetes' tests.

use crate::options;
use crate::process::proc::{Outcome, Proc};
use crate::programs::input::Input;
use std::fmt::Write;

/// `ip`: changes nothing. Who may not change the network is refused.
pub async fn ip(proc: &mut Proc, argv: &[String]) -> Outcome {
    let words: Vec<&str> = argv[1..].iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match words.as_slice() {
        [_, "add" | "del" | "delete" | "set" | "change" | "replace" | "flush", ..] => {
            proc.tree().mark_used_unknown();
            let may_change = proc.user.uid == 0 && proc.kernel.privileges.lock().capabilities.has("NET_ADMIN");
            match may_change {
                true => Ok(0),
                false => proc.fail("ip: RTNETLINK answers: Operation not permitted", 2).await,
            }
        }
        ["a" | "addr" | "address", ..] => {
            let addresses = proc.kernel.network.addresses();
            let mut text =
                "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue qlen 1000\n    inet 127.0.0.1/8 scope host lo\n\
                            2: eth0@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue\n"
                    .to_owned();
            for address in addresses {
                let (family, length) = if address.is_ipv4() { ("inet", 24) } else { ("inet6", 64) };
                let _ = writeln!(text, "    {family} {address}/{length} scope global eth0");
            }
            proc.print(&text).await?;
            Ok(0)
        }
        _ => proc.fail("ip: only addresses are simulated: ip addr", 1).await,
    }
}

/// `sysctl NAME…`: the kernel parameters that the pod has set.
pub async fn sysctl(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "neN");
    // A container that runs ahead of its time knows no parameters.
    proc.tree().mark_used_unknown();
    let mut code = 0;
    for name in &options.operands {
        let name = name.replace('/', ".");
        let value = proc.kernel.privileges.lock().sysctls.get(&name).cloned();
        match value {
            Some(value) if options.has('n') => proc.print(&format!("{value}\n")).await?,
            Some(value) => proc.print(&format!("{name} = {value}\n")).await?,
            None => code = proc.fail(&format!("sysctl: error: '{name}' is an unknown key"), 1).await?,
        }
    }
    Ok(code)
}

/// `nonewprivs`: a file of root with the set-user-ID bit, that says who runs it.
pub async fn no_new_privileges(proc: &mut Proc) -> Outcome {
    let uid = if proc.kernel.privileges.lock().no_new_privileges { proc.user.uid } else { 0 };
    proc.print(&format!("Effective uid: {uid}\n")).await?;
    Ok(0)
}

/// `hexdump -C`: the bytes of files in hexadecimal and as text.
pub async fn hexdump(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "Cvbcdox");
    let mut input = Input::new(&argv[0], &options.operands);
    let mut bytes = Vec::new();
    while input.next_file(proc).await? {
        bytes.extend(input.rest_of_file(proc).await);
    }
    let mut text = String::new();
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = hex.split_at(hex.len().min(8));
        let shown: String =
            chunk.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        let columns = format!("{:<23}  {:<23}", left.join(" "), right.join(" "));
        let _ = writeln!(text, "{:08x}  {columns}  |{shown}|", row * 16);
    }
    if !bytes.is_empty() {
        let _ = writeln!(text, "{:08x}", bytes.len());
    }
    proc.print(&text).await?;
    Ok(input.code())
}
