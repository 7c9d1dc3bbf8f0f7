//! One look at several sites at once, each with its own answer: the slowest never hides the others.

use std::pin::pin;
use std::time::Duration;

use bloodraven_failover::judge::{Answer, Answers};
use bloodraven_ports::{Clock, Database, DatabaseSession, GroupStore, ServerAddress};
use bloodraven_types::group::SiteSpec;
use bloodraven_types::{Group, SiteName};
use futures::future::{Either, select};

use crate::hands::Hands;
use crate::sessions::Sessions;

/// How long a site may take to answer a look. Looks are taken while nobody can write, so a hung site must not add its
/// statement and connect timeouts to the outage (report B34); whoever needs the answer asks again.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks every site of the group but `except`, in parallel.
pub async fn sites<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    group: &Group,
    except: &[&SiteName],
) -> Answers {
    let asked = group.spec.sites.iter().filter(|site| !except.contains(&&site.name));
    let answers = asked.map(|site| async { (site.name.clone(), one(hands, site).await) });
    futures::future::join_all(answers).await.into_iter().collect()
}

/// Asks one site.
pub async fn one<D: Database, S: GroupStore, C: Clock>(hands: &Hands<D, S, C>, site: &SiteSpec) -> Answer {
    let address = ServerAddress::administrative(site);
    match select(pin!(look(&hands.sessions, &address)), pin!(hands.clock.sleep(PATIENCE))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => {
            // What is idle there hangs as well.
            hands.sessions.forget(&address);
            Err(format!("{} does not answer within {PATIENCE:?}", site.name))
        }
    }
}

/// A session that was cut while it was idle is no answer of the server: then a new one is opened.
async fn look<D: Database>(sessions: &Sessions<D>, address: &ServerAddress) -> Answer {
    let mut session = sessions.take(address).await.map_err(|error| error.to_string())?;
    match session.observe().await {
        Ok(observation) => {
            sessions.put(session);
            Ok(observation)
        }
        Err(error) if error.is_no_answer() => {
            let mut session = sessions.checked(address).await.map_err(|error| error.to_string())?;
            let observation = session.observe().await.map_err(|error| error.to_string())?;
            sessions.put(session);
            Ok(observation)
        }
        Err(error) => Err(error.to_string()),
    }
}
