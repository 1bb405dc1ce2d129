import java.util.Map;
import java.util.function.LongPredicate;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** Lets topics have what managed clusters let them have, as these document it; a topic's name says which one is played. */
public class ManagedTopics implements CreateTopicPolicy {
    private static final LongPredicate ANY = value -> true;
    private static final Map<String, Map<String, LongPredicate>> ALLOWED = Map.of(
        "-managed-ibm-", Map.of(
            "retention.ms", ANY, "retention.bytes", ANY, "segment.index.bytes", ANY,
            "segment.bytes", value -> value >= 102_400, "segment.ms", value -> value >= 300_000),
        "-managed-confluent-", Map.of(
            "retention.ms", ANY, "retention.bytes", ANY, "delete.retention.ms", ANY, "max.message.bytes", ANY,
            "min.insync.replicas", value -> value == 1 || value == 2,
            "segment.bytes", value -> value >= 52_428_800, "segment.ms", value -> value >= 14_400_000));

    @Override
    public void validate(RequestMetadata request) {
        ALLOWED.forEach((cluster, allowed) -> {
            if (!request.topic().contains(cluster)) return;
            request.configs().forEach((name, value) -> {
                if (name.equals("cleanup.policy")) return;
                LongPredicate check = allowed.get(name);
                if (check == null || !check.test(Long.parseLong(value))) {
                    throw new PolicyViolationException("Config property '" + name + "' with value '" + value + "' is not allowed.");
                }
            });
        });
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}
