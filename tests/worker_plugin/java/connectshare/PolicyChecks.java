package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.refused;
import static connectshare.Checks.that;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest.ClientType;
import org.apache.kafka.connect.health.ConnectorType;

/** What the policy adds to the clients of connectors, and what it leaves to the policy behind it. */
final class PolicyChecks {
    private static final String NAME = "connectshare.TopicSharingInterceptor";
    private static final String LIST = "interceptor.classes";

    private PolicyChecks() {
    }

    /** A worker's own map gets the interceptor at the end of what is there; a connector cannot take it out. */
    public static void adds() {
        TopicSharingOverridePolicy policy = policy("producer.interceptor.classes", "x.Trace");
        equal(added(policy, ConnectorType.SOURCE, ClientType.PRODUCER), "x.Trace," + NAME, "the worker's line stays");
        equal(added(policy, ConnectorType.SOURCE, ClientType.CONSUMER), NAME, "no line");
        equal(added(policy, ConnectorType.UNKNOWN, ClientType.CONSUMER), NAME, "may be a source");
        equal(added(policy, ConnectorType.SOURCE, ClientType.PRODUCER, LIST, " "), NAME, "an empty override");
        equal(added(policy, ConnectorType.SOURCE, ClientType.PRODUCER, LIST, "y.Y"), "y.Y," + NAME, "an override");
        equal(added(policy, ConnectorType.SOURCE, ClientType.PRODUCER, LIST, NAME + ",y.Y"), NAME + ",y.Y", "once");
        equal(added(policy, ConnectorType.SINK, ClientType.CONSUMER), null, "sinks read data");
        equal(added(policy, ConnectorType.SOURCE, ClientType.ADMIN), null, "admin clients have no records");
        equal(added(policy("connect.management.topic.sharing.support", "disabled"), ConnectorType.SOURCE, ClientType.PRODUCER), null, "off");
    }

    /** REST asks with a map of its own; a worker that did so would get no interceptor, and is stopped. */
    public static void mapsThatAreNotTheWorkers() {
        TopicSharingOverridePolicy policy = policy();
        Map<String, Object> overrides = new HashMap<>();
        ConnectorClientConfigRequest request = request(ConnectorType.SOURCE, ClientType.PRODUCER, overrides);
        equal(errors(policy.validate(request)), new ArrayList<>(), "allowed");
        that(overrides.isEmpty(), overrides);
        policy.worker = PolicyChecks.class.getName();
        refused(() -> policy.validate(request), "use the producer. and consumer. lines");
    }

    /** What connectors may override is the other policy's to say, what makes a client the worker's own apart. */
    public static void rules() {
        for (String name : new String[] {"None", "NoneConnectorClientConfigOverridePolicy",
                "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"}) {
            TopicSharingOverridePolicy none = policy("connectshare.override.policy", name);
            equal(errors(none.validate(request(ConnectorType.SOURCE, ClientType.PRODUCER, worker("acks", "1")))), List.of("acks"), name);
            equal(added(none, ConnectorType.SOURCE, ClientType.PRODUCER), NAME, name);
        }
        TopicSharingOverridePolicy principal = policy("connectshare.override.policy", "Principal");
        Map<String, Object> overrides = worker("acks", "1", "sasl.mechanism", "PLAIN");
        equal(errors(principal.validate(request(ConnectorType.SOURCE, ClientType.PRODUCER, overrides))), List.of("acks"), "principal");
        for (ConnectorType type : ConnectorType.values()) {
            List<ConfigValue> found = policy().validate(request(type, ClientType.CONSUMER, worker("acks", "1", "config.storage.topic", "x")));
            equal(errors(found), List.of("config.storage.topic"), type);
        }
        for (String name : new String[] {"all", "x.Y", "java.lang.String", "connectshare.TopicSharingOverridePolicy", "\n"}) {
            refused(() -> policy("connectshare.override.policy", name + "x".repeat(name.length() % 2)), "which is no policy");
        }
    }

    /** With it a worker starts exactly-once without the lines; it is named where a line is missing. */
    public static void exactlyOnce() {
        String[] enabled = {"exactly.once.source.support", "enabled"};
        refused(() -> Worker.client(Worker.properties(enabled)), "connector.client.config.override.policy=connectshare.TopicSharingOverridePolicy");
        refused(() -> policy("interceptor.classes", null), "add the line interceptor.classes=" + NAME);
        try (Worker worker = new Worker(enabled[0], enabled[1], "connector.client.config.override.policy",
                "connectshare.TopicSharingOverridePolicy")) {
            Worker.alive(worker.first, "exactly once");
            that(Worker.connectorClient() != null, "client");
        }
    }

    private static TopicSharingOverridePolicy policy(String... more) {
        TopicSharingOverridePolicy policy = new TopicSharingOverridePolicy();
        policy.configure(Worker.properties(more));
        return policy;
    }

    /** Overrides as a worker shows them. */
    private static Map<String, Object> worker(String... pairs) {
        Map<String, String> properties = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            properties.put("producer.override." + pairs[i], pairs[i + 1]);
        }
        return new AbstractConfig(new ConfigDef(), properties).originalsWithPrefix("producer.override.");
    }

    private static ConnectorClientConfigRequest request(ConnectorType type, ClientType client, Map<String, Object> overrides) {
        return new ConnectorClientConfigRequest("my.conn", type, null, overrides, client);
    }

    private static Object added(TopicSharingOverridePolicy policy, ConnectorType type, ClientType client, String... pairs) {
        Map<String, Object> overrides = worker(pairs);
        equal(errors(policy.validate(request(type, client, overrides))), new ArrayList<>(), "allowed");
        return overrides.get(LIST);
    }

    private static List<String> errors(List<ConfigValue> values) {
        List<String> names = new ArrayList<>();
        for (ConfigValue value : values) {
            if (!value.errorMessages().isEmpty()) {
                names.add(value.name());
            }
        }
        return names;
    }
}
