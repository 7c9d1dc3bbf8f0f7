//! One look at several sites at once, each with its own answer: the slowest never hides the others.

use bloodraven_failover::judge::{Answer, Answers};
use bloodraven_ports::{Database, DatabaseSession, ServerAddress};
use bloodraven_types::group::SiteSpec;
use bloodraven_types::{Group, SiteName};

use crate::sessions::Sessions;

/// Asks every site of the group but `except`, in parallel.
pub async fn sites<D: Database>(sessions: &Sessions<D>, group: &Group, except: &[&SiteName]) -> Answers {
    let asked = group.spec.sites.iter().filter(|site| !except.contains(&&site.name));
    let answers = asked.map(|site| async { (site.name.clone(), one(sessions, site).await) });
    futures::future::join_all(answers).await.into_iter().collect()
}

/// Asks one site. A session that was cut while it was idle is no answer of the server: then a new one is opened.
pub async fn one<D: Database>(sessions: &Sessions<D>, site: &SiteSpec) -> Answer {
    let address = ServerAddress::administrative(site);
    let mut session = sessions.take(&address).await.map_err(|error| error.to_string())?;
    match session.observe().await {
        Ok(observation) => {
            sessions.put(session);
            Ok(observation)
        }
        Err(error) if error.is_no_answer() => {
            let mut session = sessions.checked(&address).await.map_err(|error| error.to_string())?;
            let observation = session.observe().await.map_err(|error| error.to_string())?;
            sessions.put(session);
            Ok(observation)
        }
        Err(error) => Err(error.to_string()),
    }
}
