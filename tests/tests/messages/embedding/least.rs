use e810::Config;
use e810::hmc::Capacity;

const LEAST: Config = Config {
    capacity: Capacity {
        qps: 4,
        cqs: 4,
        mrs: 2,
        ahs: 1,
        arps: 2,
        mcast_groups: 1,
        pbles: 0,
    },
    cqp_entries: 4,
    ceqs: 1,
    // A queue pair of 32 sends and 32 receives, of one SGE each.
    tracker_words_per_qp: 1728 / 4,
    ..Config::cold(1500)
};
