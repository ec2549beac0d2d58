FpmQuery {
    first_sd: 0,
    max_sds: 64,
    max_ceqs: 32,
    hash_multiplier: 1,
    timer_bucket: 256,
    xf_block: 8,
    q1_block: 8,
    rrf_block: 8,
    ..FpmQuery::NOTHING
        .with(Object::Qp, ObjectLimits { max: 1024, bytes: 1024 })
        .with(Object::Cq, ObjectLimits { max: 2048, bytes: 128 })
        .with(Object::Hte, ObjectLimits { max: 4096, bytes: 64 })
        .with(Object::Arp, ObjectLimits { max: 256, bytes: 64 })
        .with(Object::Apbvt, ObjectLimits { max: 1, bytes: 8192 })
        .with(Object::Mr, ObjectLimits { max: 16384, bytes: 64 })
        .with(Object::Xf, ObjectLimits { max: 65536, bytes: 64 })
        .with(Object::XfFl, ObjectLimits { max: 8192, bytes: 4 })
        .with(Object::Q1, ObjectLimits { max: 262144, bytes: 64 })
        .with(Object::Q1Fl, ObjectLimits { max: 32768, bytes: 4 })
        .with(Object::Timer, ObjectLimits { max: 8192, bytes: 64 })
        .with(Object::FsiMc, ObjectLimits { max: 512, bytes: 256 })
        .with(Object::FsiAv, ObjectLimits { max: 1024, bytes: 64 })
        .with(Object::Pble, ObjectLimits { max: 1048576, bytes: 8 })
        .with(Object::Rrf, ObjectLimits { max: 32768, bytes: 64 })
        .with(Object::RrfFl, ObjectLimits { max: 4096, bytes: 4 })
        .with(Object::Hdr, ObjectLimits { max: 1024, bytes: 64 })
        .with(Object::Md, ObjectLimits { max: 4096, bytes: 64 })
}
