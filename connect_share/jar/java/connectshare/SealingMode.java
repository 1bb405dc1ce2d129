package connectshare;

/** What a worker with keys accepts, and writes. */
enum SealingMode {
    /** Only sealed records of its own are accepted; everything is written sealed. */
    REQUIRED,
    /** Plain records of its own are accepted too; everything is written sealed. */
    ACCEPT,
    /** As without keys: plain records only. */
    OFF
}
