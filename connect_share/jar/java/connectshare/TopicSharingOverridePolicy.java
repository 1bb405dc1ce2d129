package connectshare;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest.ClientType;
import org.apache.kafka.connect.health.ConnectorType;

/**
 * Adds the interceptor to the clients of source connectors where the worker file cannot have
 * {@code producer.interceptor.classes}: Strimzi drops that line.
 *
 * <p>What connectors may override is decided by another policy, whose name is in {@code connectshare.override.policy}. A worker
 * lays over a client's properties the very map that it shows to the policy, so what is added here reaches the client, and no
 * connector can take it out.
 */
public final class TopicSharingOverridePolicy implements ConnectorClientConfigOverridePolicy {
    /** Name of this class as worker files have it. */
    static final String NAME = "connectshare.TopicSharingOverridePolicy";
    static final String RULES = "connectshare.override.policy";
    private static final String PACKAGE = "org.apache.kafka.connect.connector.policy.";
    private static final String ENDING = "ConnectorClientConfigOverridePolicy";
    // What a worker shows: a map that AbstractConfig makes. What REST shows while it validates is none.
    private static final String WORKERS_MAP = "org.apache.kafka.common.config.AbstractConfig$RecordingMap";

    String worker = "org.apache.kafka.connect.runtime.Worker";
    private ConnectorClientConfigOverridePolicy rules;
    private boolean enabled;
    private final Map<ClientType, String> lines = new HashMap<>();

    /**
     * Reads the worker's properties.
     *
     * @throws ConfigException they are wrong, or the policy with the rules cannot be had; the worker stops. Where the line for the
     *     interceptor is missing nobody else looks at them, and the worker would be one with plain keys
     */
    @Override
    public void configure(Map<String, ?> properties) {
        enabled = Settings.of(properties).enabled;
        lines.put(ClientType.PRODUCER, Settings.text(properties, "producer." + Settings.INTERCEPTORS));
        lines.put(ClientType.CONSUMER, Settings.text(properties, "consumer." + Settings.INTERCEPTORS));
        String name = Settings.text(properties, RULES);
        rules = rules(name.isEmpty() ? "All" : name);
        rules.configure(properties);
    }

    private static ConnectorClientConfigOverridePolicy rules(String name) {
        for (String spelled : new String[] {PACKAGE + name + ENDING, PACKAGE + name, name}) {
            try {
                Object made = Class.forName(spelled).getDeclaredConstructor().newInstance();
                if (made instanceof ConnectorClientConfigOverridePolicy && !(made instanceof TopicSharingOverridePolicy)) {
                    return (ConnectorClientConfigOverridePolicy) made;
                }
            } catch (ReflectiveOperationException | LinkageError other) {
                // The next spelling.
            }
        }
        throw new ConfigException(RULES + " is '" + Texts.shown(name) + "', which is no policy that this worker has; "
            + "it has to be All, None, Principal, or the name of a class on the worker's class path");
    }

    @Override
    public List<ConfigValue> validate(ConnectorClientConfigRequest request) {
        List<ConfigValue> found = rules.validate(request);
        if (!enabled || request.clientType() == ClientType.ADMIN) {
            return found;
        }
        found = new ArrayList<>(found);
        for (ConfigValue value : found) {
            if (Settings.areOfWorker(Collections.singletonMap(value.name(), ""))) {
                value.addErrorMessage(value.name() + " is the worker's own with topic sharing, and no connector may override it");
            }
        }
        Map<String, Object> overrides = request.clientProps();
        if (overrides.getClass().getName().equals(WORKERS_MAP)) {
            if (request.connectorType() != ConnectorType.SINK) {
                overrides.put(Settings.INTERCEPTORS, withInterceptor(overrides.get(Settings.INTERCEPTORS), request.clientType()));
            }
        } else if (Arrays.stream(Thread.currentThread().getStackTrace()).anyMatch(caller -> caller.getClassName().equals(worker))) {
            throw new ConfigException("this version of Connect lets no policy add to the properties of a client, so the keys of "
                + "offsets would have no prefix; use the producer. and consumer. lines for " + TopicSharingInterceptor.NAME);
        }
        return found;
    }

    private String withInterceptor(Object override, ClientType type) {
        String before = override == null ? lines.get(type) : override.toString().trim();
        boolean there = Settings.times(Collections.singletonMap(Settings.INTERCEPTORS, before), Settings.INTERCEPTORS) > 0;
        return there ? before : before.isEmpty() ? TopicSharingInterceptor.NAME : before + "," + TopicSharingInterceptor.NAME;
    }

    @Override
    public void close() throws Exception {
        if (rules != null) {
            rules.close();
        }
    }
}
