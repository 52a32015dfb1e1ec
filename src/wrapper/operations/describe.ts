/**
 * What this runtime can do: the same at every call, so the line is kept as text, and Paseo's first question needs
 * neither a schema nor a host. A test holds it against the contract's schema.
 */
export const DESCRIBE_LINE = '{"protocolVersion":1,"modes":["pipes","pty"],"reconcile":true}\n';
