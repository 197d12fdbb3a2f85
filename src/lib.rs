pub mod agent;
pub mod conversation;
pub mod llm;
pub mod web;
