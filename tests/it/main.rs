//! The product from outside: its processes, pages and files.

mod commands;
mod decisions;
mod harness;
#[cfg(test)]
mod llm;
mod rules;
