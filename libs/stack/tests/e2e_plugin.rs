//! The kubectl plugin on a real group: it asks, follows its own run to the end, and tells it afterwards.

use std::process::Output;

use bloodraven_stack::{Stack, StackOptions};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

async fn plugin(stack: &Stack, arguments: &[&str]) -> TestResult<(Option<i32>, String)> {
    let mut command = stack.kubectl_command()?;
    let Output { status, stdout, stderr } = command.arg("bloodraven").args(arguments).output().await?;
    let said = [stdout, stderr].concat();
    Ok((status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// `promote --wait` prints each phase of its own run as it comes and ends with the outcome's exit code; `status` and
/// `runs` tell the run afterwards; a request that is refused ends with its reason. spec: PF-CLI-01, PF-CLI-02
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_asked_for_followed_and_told() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("plugin")).await?;

    let (code, said) = plugin(&stack, &["promote", "orders", "pdx", "--wait", "--timeout", "60s"]).await?;
    assert_eq!(code, Some(0), "{said}");
    let mut rest = said.as_str();
    for phase in ["phase: Fencing", "phase: Promoting", "] Succeeded"] {
        let at = rest
            .find(phase)
            .ok_or_else(|| format!("no {phase:?} in its place in\n{said}"))?;
        rest = rest.get(at..).unwrap_or_default();
    }

    let (code, said) = plugin(&stack, &["status", "orders"]).await?;
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("Outcome:   Succeeded") && said.contains("pdx accepts writes"),
        "{said}"
    );

    let urls = stack.lab().nats_urls();
    let bus = urls.first().ok_or("no bus")?;
    let run = stack.record().await?.run().ok_or("no run")?.run_id;
    stack.timeline(run).await?;
    let (_, said) = plugin(&stack, &["runs", "orders", "--bus", bus]).await?;
    assert!(said.contains(&run.to_string()) && said.contains("Succeeded"), "{said}");
    let (code, said) = plugin(&stack, &["runs", "orders", "latest", "--bus", bus]).await?;
    assert_eq!(code, Some(0), "{said}");
    for (kind, name) in [
        ("fact", "requested"),
        ("command", "fence"),
        ("fact", "promoted"),
        ("record", "succeeded"),
    ] {
        let told = said
            .lines()
            .any(|line| line.contains(&format!(" {kind} ")) && line.contains(&format!(" {name} ")));
        assert!(told, "no {kind} {name} in\n{said}");
    }

    let (code, said) = plugin(&stack, &["promote", "orders", "iad", "--expect", "ord", "--wait"]).await?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("NotStarted:UnexpectedActiveSite"), "{said}");
    stack.down().await?;
    Ok(())
}
