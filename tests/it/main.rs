//! The product from outside: its processes, pages and files.

mod commands;
mod decisions;
mod harness;
mod rules;
