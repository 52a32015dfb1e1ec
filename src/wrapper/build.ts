/** Replaced by the build with a hash of everything it built from. */
declare const __PASEO_BUILD__: string;

/** Another build's broker may speak another dial protocol or deploy another agent, so each build has its own. */
export function brokerName(): string {
  return `broker-${__PASEO_BUILD__.slice(0, 8)}`;
}

