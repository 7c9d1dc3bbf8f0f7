//! `Succeeded`, and what follows from it by itself: the followers, the record in DNS, tagged transactions.

use std::time::Duration;

use bloodraven_stack::{Program, Stack, StackOptions};
use bloodraven_types::words::{ConvergenceReason, ConvergenceState};
use bloodraven_types::{Group, Outcome, StepState, Warning};
use mysql_async::OptsBuilder;
use serde_json::{Value, json};

use crate::support::{
    Follows, SOON, TestResult, as_root, ask, end, event, eventually, executed, follows, goes_on, is_active, judge,
    writable_sites,
};
use crate::writer::Writer;

/// The name of the group's record.
const RECORD: &str = "bloodraven-orders";

/// Under a load of tagged transactions the gate passes and nothing is lost; the other sites follow the new primary, and the
/// record in DNS names its address. Where the publisher may not write the record, the run succeeds with a warning, clients
/// find the new primary by its label, and the record follows when the publisher may write it.
/// report: B04. spec: PF-PUB-01, PF-PUB-02, PF-TOP-04
#[tokio::test(flavor = "multi_thread")]
async fn followers_dns_and_tagged_transactions_follow() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("succeeded")).await?;
    let ledger = stack.start_ledger().await?;
    let tagged = tagged_client(&stack).await?;
    tagged.goes_on().await?;

    let run = ask(&stack, "pdx").await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    assert!(
        run.result.as_ref().is_some_and(|result| result.warnings.is_empty()),
        "{run:#?}"
    );
    assert_eq!(run.dns.as_ref().map(|dns| dns.state), Some(StepState::Applied));
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    let fenced = run
        .fence
        .as_ref()
        .and_then(|fence| fence.gtid_set.clone())
        .ok_or("no fenced set")?;
    assert!(fenced.contains(":sometag:"), "{fenced}");
    goes_on(&ledger).await?;
    tagged.goes_on().await?;
    all_follow(&stack, "pdx", ["iad", "ord"]).await?;
    record_names(&stack, "192.0.2.20").await?;
    let flips = dns_flips(&stack).await?;
    assert_eq!(
        flips,
        ["bloodraven_dns_flips_total{site=\"iad\"} 1"],
        "the record went once, and not by repair"
    );
    let written = tagged.stop().await?;
    let mut target = stack.lab().mysql("pdx").await?;
    written.is_kept_by(&mut target, "tagged").await?;
    target.disconnect().await?;
    assert!(executed(&stack, "pdx").await?.contains(":sometag:"));

    without_dns(&stack).await?;
    goes_on(&ledger).await?;
    all_follow(&stack, "iad", ["pdx", "ord"]).await?;
    let report = judge(&stack, ledger).await?;
    assert_eq!(report.period_count, 3, "there and back, and nobody in between");
    stack.down().await?;
    Ok(())
}

/// An application whose transactions carry a tag, writing through the primary's Service.
async fn tagged_client(stack: &Stack) -> TestResult<Writer> {
    let account = [
        "CREATE USER tagging@'%' IDENTIFIED BY 'tagging-only-here'",
        "GRANT SELECT, INSERT ON app.* TO tagging@'%'",
        "GRANT TRANSACTION_GTID_TAG, SESSION_VARIABLES_ADMIN ON *.* TO tagging@'%'",
        "CREATE TABLE app.tagged (id BIGINT PRIMARY KEY)",
    ];
    as_root(stack, "iad", &account).await?;
    let service = stack.service();
    let opts = OptsBuilder::default()
        .ip_or_hostname(service.ip().to_string())
        .tcp_port(service.port())
        .user(Some("tagging"))
        .pass(Some("tagging-only-here"))
        .prefer_socket(Some(false));
    Ok(Writer::start(
        opts.into(),
        "tagged",
        "SET SESSION gtid_next = 'AUTOMATIC:sometag'",
    ))
}

/// The other sites read straight from the primary, as they say themselves and as the status says.
async fn all_follow(stack: &Stack, primary: &str, followers: [&str; 2]) -> TestResult {
    let node = stack.lab().site(primary)?.clone();
    let wanted = Follows {
        port: node.port,
        source_uuid: node.server_uuid.clone(),
        running: true,
    };
    for follower in followers {
        eventually(&format!("{follower} following {primary}"), SOON, async || {
            let found = follows(stack, follower).await?;
            if found.as_ref() == Some(&wanted) {
                return Ok(Some(()));
            }
            Err(format!("{found:?} instead of {wanted:?}").into())
        })
        .await?;
    }
    assert_eq!(follows(stack, primary).await?, None, "the primary follows nobody");
    let converged = |group: &Group| {
        followers.iter().all(|follower| {
            let site = group.status.sites.iter().find(|site| site.name == *follower);
            site.is_some_and(|site| {
                site.source_convergence_state == Some(ConvergenceState::Converged)
                    && site.source_convergence_reason == Some(ConvergenceReason::DirectSource)
                    && site.source_host == Some(format!("{}:{}", node.host, node.port))
            })
        })
    };
    stack.wait_until("all sites being converged", SOON, converged).await?;
    Ok(())
}

/// The publisher may not touch records: the run succeeds all the same, and the record follows once it may.
async fn without_dns(stack: &Stack) -> TestResult {
    let rules = stack
        .kubectl(["get", "clusterrole", "bloodraven-publisher", "--output", "json"])
        .await?;
    let role: Value = serde_json::from_slice(&rules.stdout)?;
    let rules = role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
    let fewer: Vec<&Value> = rules
        .iter()
        .filter(|rule| !rule.to_string().contains("dnsendpoints"))
        .collect();
    assert_eq!(fewer.len() + 1, rules.len());
    set_rules(stack, &json!(fewer)).await?;
    may_write_records(stack, "no").await?;

    is_active(stack, "pdx").await?;
    let run = ask(stack, "iad").await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    let result = run.result.as_ref().ok_or("no result")?;
    assert_eq!(result.warnings, [Warning::DNSUpdateFailed]);
    let dns = run.dns.as_ref().ok_or("no dns")?;
    assert_eq!(dns.state, StepState::Failed);
    assert!(
        dns.last_error.as_ref().is_some_and(|error| error.contains("forbidden")),
        "{dns:?}"
    );
    let failed = event(stack, "PlannedFailoverDNSUpdateFailed", "\"iad\" is promoted").await?;
    assert_eq!(failed.kind, "Warning");
    event(stack, "PlannedFailoverSucceeded", "DNSUpdateFailed").await?;
    assert_eq!(writable_sites(stack).await?, ["iad"]);
    record_names(stack, "192.0.2.20").await?;

    set_rules(stack, &json!(rules)).await?;
    may_write_records(stack, "yes").await?;
    record_names(stack, "192.0.2.10").await?;
    let flips = dns_flips(stack).await?;
    assert_eq!(
        flips,
        ["bloodraven_dns_flips_total{site=\"iad\"} 2"],
        "the record was repaired"
    );
    Ok(())
}

/// The repairs of the record: at the start it is made for the first site; a run publishes it itself.
async fn dns_flips(stack: &Stack) -> TestResult<Vec<String>> {
    let metrics = stack.admin(Program::Publisher, "/metrics").await?;
    let flips = metrics
        .lines()
        .filter(|line| line.starts_with("bloodraven_dns_flips_total{"));
    Ok(flips.map(str::to_owned).collect())
}

async fn set_rules(stack: &Stack, rules: &Value) -> TestResult {
    let patch = json!({ "rules": rules }).to_string();
    stack
        .kubectl([
            "patch",
            "clusterrole",
            "bloodraven-publisher",
            "--type",
            "merge",
            "--patch",
            &patch,
        ])
        .await?;
    Ok(())
}

/// Waits until the API server answers so for the publisher.
async fn may_write_records(stack: &Stack, answer: &str) -> TestResult {
    let publisher = "system:serviceaccount:bloodraven-system:bloodraven-publisher";
    eventually(&format!("the publisher's right: {answer}"), SOON, async || {
        let mut command = stack.kubectl_command()?;
        let asked = command.args([
            "auth",
            "can-i",
            "patch",
            "dnsendpoints.externaldns.k8s.io",
            "--as",
            publisher,
        ]);
        let said = asked.output().await?;
        Ok((String::from_utf8_lossy(&said.stdout).trim() == answer).then_some(()))
    })
    .await
}

/// Waits until the group's record has this address, and no other.
async fn record_names(stack: &Stack, address: &str) -> TestResult {
    eventually(
        &format!("the record naming {address}"),
        Duration::from_secs(20),
        async || {
            let found = stack
                .kubectl(["get", "dnsendpoint", RECORD, "--output", "json"])
                .await?;
            let found: Value = serde_json::from_slice(&found.stdout)?;
            let endpoints = found.pointer("/spec/endpoints").cloned().unwrap_or_default();
            let wanted =
                json!([{ "dnsName": "orders.example.com", "recordType": "A", "targets": [address], "recordTTL": 60 }]);
            if endpoints == wanted {
                return Ok(Some(()));
            }
            Err(endpoints.to_string().into())
        },
    )
    .await
}
