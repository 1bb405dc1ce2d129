package connectshare;

import connectshare.GroupKeys.TopicType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/** What a worker's own properties say about sharing; everything that can be wrong in them is found here, at start. */
final class Settings {
    static final String SHARING = "connect.management.topic.sharing.support";
    static final String SEALING = "connect.management.topic.sharing.encryption";
    static final String SEALING_KEYS = SEALING + ".keys";
    private static final List<String> OURS = Arrays.asList(SHARING, SEALING, SEALING_KEYS, TopicSharingOverridePolicy.RULES);
    static final String INTERCEPTORS = "interceptor.classes";
    static final String POLICY = "connector.client.config.override.policy";
    private static final String EXACTLY_ONCE = "exactly.once.source.support";
    private static final String[] TOPICS = {"config.storage.topic", "status.storage.topic", "offset.storage.topic"};
    private static final TopicType[] TYPES = {TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET};
    private static final String[] CONNECTOR_CLIENTS = {"producer.", "consumer."};

    final boolean enabled;
    final String group;
    /** Topics by name; empty when sharing is off. */
    final Map<String, TopicType> topics;
    /** Exactly-once source support is enabled. */
    final boolean exactlyOnce;
    /** Clients of connectors have the interceptor too. */
    final boolean reachesConnectors;
    /** No connector can take it out of its clients. */
    final boolean staysInConnectors;
    final SealingMode sealing;
    /** The file says itself that nothing is sealed. */
    final boolean saysPlain;
    /** Null where nothing is sealed. */
    final KeyRing sealingKeys;

    private Settings(
            boolean enabled, String group, Map<String, TopicType> topics, boolean exactlyOnce, boolean reachesConnectors,
            boolean staysInConnectors, SealingMode sealing, boolean saysPlain, KeyRing sealingKeys) {
        this.enabled = enabled;
        this.group = group;
        this.topics = topics;
        this.exactlyOnce = exactlyOnce;
        this.reachesConnectors = reachesConnectors;
        this.staysInConnectors = staysInConnectors;
        this.sealing = sealing;
        this.saysPlain = saysPlain;
        this.sealingKeys = sealingKeys;
    }

    /** The name of the config topic. */
    String configTopic() {
        return topics.entrySet().stream().filter(topic -> topic.getValue() == TopicType.CONFIG).findFirst().get().getKey();
    }

    /**
     * Returns whether these are a worker's own properties.
     *
     * <p>Clients of connectors get what begins with {@code producer.} or {@code consumer.} only, never these.
     */
    static boolean areOfWorker(Map<String, ?> properties) {
        for (String name : TOPICS) {
            if (properties.containsKey(name)) {
                return true;
            }
        }
        return properties.containsKey(SHARING);
    }

    /**
     * Reads a worker's properties.
     *
     * @throws ConfigException something is missing or wrong; says what to do
     */
    static Settings of(Map<String, ?> properties) {
        for (String name : properties.keySet()) {
            boolean ours = name.startsWith("connect.management.topic.sharing.") || name.startsWith("connectshare.");
            if (ours && !OURS.contains(name)) {
                throw new ConfigException(Texts.shown(name) + " is no property of topic sharing; there are "
                    + String.join(", ", OURS));
            }
        }
        KeyRing keys = keys(properties);
        SealingMode sealing = sealing(properties, keys);
        if (!flag(properties)) {
            return new Settings(false, "", new LinkedHashMap<>(), false, false, false, SealingMode.OFF, false, null);
        }
        String group = text(properties, "group.id");
        if (group.isEmpty()) {
            throw new ConfigException("group.id is missing; with " + SHARING + "=enabled it is the prefix of all keys");
        }
        String objection = GroupKeys.objection(group);
        if (objection != null) {
            throw new ConfigException("group.id '" + Texts.shown(group) + "' cannot be a cluster group id with " + SHARING
                + "=enabled: " + objection + "; choose another group.id");
        }
        Map<String, TopicType> topics = new LinkedHashMap<>();
        for (int i = 0; i < TOPICS.length; i++) {
            String topic = text(properties, TOPICS[i]);
            if (topic.isEmpty()) {
                throw new ConfigException(TOPICS[i] + " is missing; a distributed worker's file has it");
            }
            if (!GroupKeys.hasLegalCharacters(topic)) {
                throw new ConfigException(TOPICS[i] + " is '" + Texts.shown(topic)
                    + "', which is no legal name of a topic: only the characters A-Z a-z 0-9 . _ - are allowed");
            }
            if (topics.put(topic, TYPES[i]) != null) {
                throw new ConfigException(TOPICS[i] + " names topic '" + Texts.shown(topic)
                    + "', which another of the three properties names too; each needs a topic of its own");
            }
        }
        requireOnce(properties, INTERCEPTORS);
        boolean exactlyOnce = text(properties, EXACTLY_ONCE).toLowerCase(Locale.ROOT).equals("enabled");
        boolean byPolicy = text(properties, POLICY).equals(TopicSharingOverridePolicy.NAME);
        boolean reachesConnectors = true;
        for (String clients : CONNECTOR_CLIENTS) {
            int times = times(properties, clients + INTERCEPTORS);
            if (times > 1 || exactlyOnce && times == 0 && !byPolicy) {
                requireOnce(properties, clients + INTERCEPTORS);
            }
            reachesConnectors &= times == 1 || byPolicy;
        }
        boolean saysPlain = sealing == SealingMode.OFF && !text(properties, SEALING).isEmpty();
        return new Settings(true, group, topics, exactlyOnce, reachesConnectors, byPolicy, sealing, saysPlain,
            sealing == SealingMode.OFF ? null : keys);
    }

    private static KeyRing keys(Map<String, ?> properties) {
        String text = text(properties, SEALING_KEYS);
        try {
            return text.isEmpty() ? null : new KeyRing(text);
        } catch (IllegalArgumentException objection) {
            throw new ConfigException(SEALING_KEYS + ": " + objection.getMessage());
        }
    }

    private static SealingMode sealing(Map<String, ?> properties, KeyRing keys) {
        String word = text(properties, SEALING).toUpperCase(Locale.ROOT);
        if (keys == null && word.isEmpty() && properties.containsKey(SEALING_KEYS)) {
            throw new ConfigException(SEALING_KEYS + " is empty, and nothing would be sealed; give it the keys, remove the line, or set "
                + SEALING + "=off");
        }
        SealingMode mode = word.isEmpty() ? keys == null ? SealingMode.OFF : SealingMode.REQUIRED : null;
        for (SealingMode one : SealingMode.values()) {
            mode = one.name().equals(word) ? one : mode;
        }
        if (mode == null) {
            throw new ConfigException(SEALING + " has to be one of required, accept, off");
        }
        if (mode != SealingMode.OFF && keys == null) {
            throw new ConfigException(SEALING_KEYS + " is missing; " + SEALING + "=" + mode.name().toLowerCase(Locale.ROOT) + " needs keys");
        }
        if (mode != SealingMode.OFF && !flag(properties)) {
            throw new ConfigException(SEALING_KEYS + " is there, but " + SHARING + " is not enabled: plain keys are never sealed; enable "
                + "sharing, or set " + SEALING + "=off");
        }
        return mode;
    }

    private static boolean flag(Map<String, ?> properties) {
        String word = text(properties, SHARING).toLowerCase(Locale.ROOT);
        if (!word.isEmpty() && !word.equals("disabled") && !word.equals("enabled")) {
            throw new ConfigException(SHARING + " has to be enabled or disabled");
        }
        return word.equals("enabled");
    }

    private static void requireOnce(Map<String, ?> properties, String name) {
        int times = times(properties, name);
        if (times == 0) {
            throw new ConfigException(name + " does not have " + TopicSharingInterceptor.NAME + "; add the line " + name + "="
                + TopicSharingInterceptor.NAME + " to the worker file, else keys would be written without the group's prefix"
                + (name.equals(INTERCEPTORS) ? "" : "; where such a line cannot be had: " + POLICY + "=" + TopicSharingOverridePolicy.NAME));
        }
        if (times > 1) {
            throw new ConfigException(name + " has " + TopicSharingInterceptor.NAME + " " + times
                + " times; it has to be there once, else keys would get the prefix again");
        }
    }

    static int times(Map<String, ?> properties, String name) {
        return Collections.frequency(list(properties.get(name)), TopicSharingInterceptor.NAME);
    }

    private static List<String> list(Object value) {
        List<String> found = new ArrayList<>();
        if (value instanceof Collection) {
            for (Object entry : (Collection<?>) value) {
                found.add(entry instanceof Class ? ((Class<?>) entry).getName() : String.valueOf(entry).trim());
            }
        } else if (value != null) {
            for (String entry : value.toString().split(",")) {
                found.add(entry.trim());
            }
        }
        return found;
    }

    static String text(Map<String, ?> properties, String name) {
        Object value = properties.get(name);
        return value == null ? "" : value.toString().trim();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Settings && all().equals(((Settings) other).all());
    }

    @Override
    public int hashCode() {
        return all().hashCode();
    }

    private List<Object> all() {
        return Arrays.asList(enabled, group, topics, exactlyOnce, reachesConnectors, staysInConnectors, sealing, saysPlain, sealingKeys);
    }
}
