// Charges an order once, whatever happens to the client or to this process.
//
// Needs Java 17, the PostgreSQL JDBC driver (Debian: libpostgresql-jdbc-java),
// the guard in the database, and a role with GRANT payonce_app:
//
//   JDBC_URL='jdbc:postgresql://localhost/shop' \
//   java -cp /usr/share/java/postgresql.jar Example.java

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Example {
    static final String CLAIM = """
        SELECT outcome, fence, recovered, response_status, response_body, retry_after_ms
          FROM guard.claim(p_scope => 'shop', p_key => ?, p_request_path => ?,
                           p_request_hash => ?, p_lease => ?::interval)""";
    static final String COMPLETE = """
        SELECT outcome, response_status, response_body
          FROM guard.complete(p_scope => 'shop', p_key => ?, p_fence => ?, p_status => 201,
                              p_headers => '{"Content-Type": "application/json"}', p_body => ?)""";
    static final String RELEASE = "SELECT guard.release(p_scope => 'shop', p_key => ?, p_fence => ?)";
    static final String ABANDON = "SELECT guard.abandon(p_scope => 'shop', p_key => ?, p_fence => ?)";

    record Answer(int status, String body) {}

    record Claim(String outcome, long fence, boolean recovered, Answer stored, int retryAfterMs) {
        /** The answer to a request that did not get the key. */
        Answer withoutWork() {
            return switch (outcome) {
                case "replay" -> stored;
                case "conflict" -> new Answer(409, "at work, come back in " + retryAfterMs + " ms");
                default -> new Answer(422, "this key belongs to another request");
            };
        }
    }

    /** The provider was never reached. */
    static class NotSent extends RuntimeException {}

    /** Stands for a payment provider, which knows an order by its number. */
    static class Provider {
        final List<String> trades = new ArrayList<>();
        RuntimeException fail;

        Integer find(String orderId) {
            int at = trades.indexOf(orderId);
            return at < 0 ? null : Integer.valueOf(at + 1);
        }

        Integer charge(String orderId) {
            RuntimeException failing = fail;
            fail = null;
            if (failing instanceof NotSent) {
                throw failing;
            }
            trades.add(orderId);
            if (failing != null) {
                throw failing;
            }
            return trades.size();
        }
    }

    static Claim claimKey(Connection db, String key, String path, String body, String lease) throws Exception {
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(body.getBytes(StandardCharsets.UTF_8));
        try (PreparedStatement call = db.prepareStatement(CLAIM)) {
            call.setString(1, key);
            call.setString(2, path);
            call.setBytes(3, hash);
            call.setString(4, lease);
            ResultSet row = call.executeQuery();
            row.next();
            return new Claim(row.getString("outcome"), row.getLong("fence"), row.getBoolean("recovered"),
                stored(row), row.getInt("retry_after_ms"));
        }
    }

    /** Stores the answer; returns the one to give, or null when a newer holder is to give it. */
    static Answer complete(Connection db, String key, long fence, String body) throws SQLException {
        try (PreparedStatement call = db.prepareStatement(COMPLETE)) {
            call.setString(1, key);
            call.setLong(2, fence);
            call.setBytes(3, body.getBytes(StandardCharsets.UTF_8));
            ResultSet row = call.executeQuery();
            row.next();
            return switch (row.getString("outcome")) {
                case "completed", "replay" -> stored(row);
                default -> null;
            };
        }
    }

    static Answer stored(ResultSet row) throws SQLException {
        byte[] body = row.getBytes("response_body");
        return body == null ? null : new Answer(row.getInt("response_status"), new String(body, StandardCharsets.UTF_8));
    }

    /** Calls release or abandon. */
    static void giveUp(Connection db, String sql, String key, long fence) throws SQLException {
        try (PreparedStatement call = db.prepareStatement(sql)) {
            call.setString(1, key);
            call.setLong(2, fence);
            call.executeQuery();
        }
    }

    /**
     * Answers one request. db commits each statement by itself, so that the claim is stored before
     * the provider is called.
     */
    static Answer charge(Connection db, Provider provider, String key, String body) throws Exception {
        Claim claim = claimKey(db, key, "POST /charges", body, "60 seconds");
        if (!claim.outcome().equals("claimed")) {
            return claim.withoutWork();
        }
        String orderId = orderId(body);
        Integer trade = null;
        try {
            // An earlier holder of the key may have charged already: ask first.
            if (claim.recovered()) {
                trade = provider.find(orderId);
            }
            if (trade == null) {
                trade = provider.charge(orderId);
            }
        } catch (NotSent e) {
            giveUp(db, RELEASE, key, claim.fence()); // a retry starts anew
            return new Answer(503, "not charged, try again");
        } catch (RuntimeException e) {
            giveUp(db, ABANDON, key, claim.fence()); // a retry asks the provider
            return new Answer(504, "in doubt, try again");
        }
        String body201 = "{\"order_id\": \"%s\", \"trade\": %d}".formatted(orderId, trade);
        Answer done = complete(db, key, claim.fence(), body201);
        return done != null ? done : new Answer(409, "this holder was too slow, another one answers");
    }

    /**
     * Answers one request whose whole effect is in this database: claim, own writes and complete
     * are one transaction, kept or lost together. The caller has it open and ends it.
     */
    static Answer placeOrder(Connection db, String key, String body) throws Exception {
        execute(db, "SET LOCAL lock_timeout = '100ms'");
        Claim claim = claimKey(db, key, "POST /orders", body, "60 seconds");
        if (!claim.outcome().equals("claimed")) {
            return claim.withoutWork();
        }
        String orderId = orderId(body);
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO orders (order_id) VALUES (?)")) {
            insert.setString(1, orderId);
            insert.executeUpdate();
        }
        return complete(db, key, claim.fence(), "placed " + orderId);
    }

    static String orderId(String body) {
        Matcher found = Pattern.compile("\"order_id\": *\"([^\"]+)\"").matcher(body);
        if (!found.find()) {
            throw new IllegalArgumentException("no order_id");
        }
        return found.group(1);
    }

    static void execute(Connection db, String sql) throws SQLException {
        try (var statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    static void show(String title, Answer answer) {
        System.out.printf("%-34s%d %s%n", title, answer.status(), answer.body());
    }

    public static void main(String[] args) throws Exception {
        String url = System.getenv("JDBC_URL");
        try (Connection db = DriverManager.getConnection(url); Connection other = DriverManager.getConnection(url)) {
            run(db, other);
        }
    }

    static void run(Connection db, Connection other) throws Exception {
        Provider provider = new Provider();
        execute(db, "CREATE TEMPORARY TABLE orders (order_id text PRIMARY KEY)");

        String body = "{\"order_id\": \"A1\", \"amount\": 1000}";
        show("first request", charge(db, provider, "key-1", body));
        show("its retry", charge(db, provider, "key-1", body));
        show("same key, other amount", charge(db, provider, "key-1", "{\"order_id\": \"A1\", \"amount\": 9}"));

        body = "{\"order_id\": \"A2\", \"amount\": 1000}";
        Claim claim = claimKey(db, "key-2", "POST /charges", body, "60 seconds");
        show("while another request is at work", charge(other, provider, "key-2", body));
        giveUp(db, RELEASE, "key-2", claim.fence());
        provider.fail = new NotSent();
        show("provider out of reach", charge(db, provider, "key-2", body));
        provider.fail = new RuntimeException("timeout");
        show("provider answers too late", charge(db, provider, "key-2", body));
        show("retry asks the provider", charge(db, provider, "key-2", body));

        body = "{\"order_id\": \"A3\", \"amount\": 1000}";
        claimKey(db, "key-3", "POST /charges", body, "100 milliseconds");
        provider.charge("A3");
        // Here the process died. Its lease runs out, and the client tries again.
        execute(db, "SELECT pg_sleep(0.2)");
        show("retry after a crash", charge(db, provider, "key-3", body));
        System.out.println("charged at the provider: " + String.join(" ", provider.trades));

        body = "{\"order_id\": \"B1\"}";
        db.setAutoCommit(false);
        other.setAutoCommit(false);
        show("in one transaction", placeOrder(db, "key-4", body));
        try {
            placeOrder(other, "key-4", body);
        } catch (SQLException e) {
            if (!"55P03".equals(e.getSQLState())) { // lock_not_available
                throw e;
            }
            System.out.println("a second caller waits for it, no longer than lock_timeout");
        }
        other.rollback();
        db.commit();
        show("the second caller, afterwards", placeOrder(other, "key-4", body));
        other.commit();

        body = "{\"order_id\": \"B2\"}";
        show("in a transaction rolled back", placeOrder(db, "key-5", body));
        db.rollback();
        show("nothing is left of it", placeOrder(db, "key-5", body));
        db.commit();
    }
}
