#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assayd::fuzzing::decider_reply(bytes));
