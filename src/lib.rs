//! The program around the gate: settings, rules, the chat agent and the pages. Only [`app`] sees all of it.

pub mod agent;
pub mod app;
pub mod commands;
pub mod config;
pub mod conversation;
pub mod llm;
mod mcp;
pub mod rules;
pub mod web;
