package tracing

// StatementName is statementName for tests.
var StatementName = statementName
