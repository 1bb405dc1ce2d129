import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Puts a prefix before every key: what people write for MirrorMaker 2, which has no transform of raw keys. */
public class KeyPrefix<R extends ConnectRecord<R>> implements Transformation<R> {
    private byte[] prefix;

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("prefix", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "put before keys");
    }

    @Override
    public void configure(Map<String, ?> properties) {
        prefix = ((String) properties.get("prefix")).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public R apply(R record) {
        if (!(record.key() instanceof byte[] key)) {
            return record;
        }
        byte[] longer = new byte[prefix.length + key.length];
        System.arraycopy(prefix, 0, longer, 0, prefix.length);
        System.arraycopy(key, 0, longer, prefix.length, key.length);
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), longer,
            record.valueSchema(), record.value(), record.timestamp(), record.headers());
    }

    @Override
    public void close() {
        // holds nothing
    }
}
