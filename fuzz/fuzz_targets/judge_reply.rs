#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assayd::fuzzing::judge_reply(bytes));
