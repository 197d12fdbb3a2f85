//! The product from outside: its processes, pages and files.

#[cfg(test)]
mod access;
#[cfg(test)]
mod agent_loop;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod cards;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod counting;
#[cfg(test)]
mod decisions;
#[cfg(test)]
mod detached;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod front;
#[cfg(test)]
mod front_trail;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod journey;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod live_rules;
#[cfg(test)]
mod llm;
#[cfg(test)]
mod load;
#[cfg(test)]
mod more_pages;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod races;
#[cfg(test)]
mod real_servers;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod start;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod trail;
