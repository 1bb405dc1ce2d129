package connectshare;

/** What a worker with keys believes, and writes. */
enum SealingMode {
    /** Only sealed records of its own are believed; everything is written sealed. */
    REQUIRED,
    /** Plain records of its own are believed too; everything is written sealed. */
    ACCEPT,
    /** As without keys: plain records only. */
    OFF
}
