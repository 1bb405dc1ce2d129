package connectshare;

/** JMX: what the interceptor did to the records of one internal topic, since the worker's start. */
public interface TopicCountersMBean {
    /** Records of this group that were read and passed on; a record counts once for each client that reads it. */
    long getOwnRecords();

    /** Records of others that were read and dropped. */
    long getForeignRecords();

    /** Records under keys of this group that were not accepted: plain, forged or old ones where values are sealed. */
    long getRefusedRecords();

    /** Sealed records of this group that were read before, written again by whomever; they change nothing. */
    long getRepeatedRecords();

    /** Records of this group that got their prefix and were sent. */
    long getRewrittenRecords();

    /** The interceptor met something it cannot handle and has stopped all traffic of this worker's internal topics. */
    boolean isStopped();
}
