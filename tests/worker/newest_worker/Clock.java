package newest;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that counts, and goes on from its offset: a worker has offsets to write, and to read after a restart. */
public final class Clock extends SourceConnector {
    private Map<String, String> properties;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Ticks.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return Collections.singletonList(properties);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    /** Its task. */
    public static final class Ticks extends SourceTask {
        private static final Map<String, ?> PARTITION = Collections.singletonMap("clock", "one");
        private String topic;
        private long tick;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> properties) {
            topic = properties.get("topic");
            Map<String, Object> last = context.offsetStorageReader().offset(PARTITION);
            tick = last == null ? 0 : (Long) last.get("tick");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(20);
            tick++;
            Map<String, ?> offset = Collections.singletonMap("tick", tick);
            return Collections.singletonList(
                    new SourceRecord(PARTITION, offset, topic, Schema.STRING_SCHEMA, Long.toString(tick)));
        }

        @Override
        public void stop() {
        }
    }
}
