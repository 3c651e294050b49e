// SPDX-License-Identifier: Apache-2.0
/* element.c - the table of information elements (element.h); NetFlow 9 uses the same numbers */
#include "dta/device/element.h"

#include "base/base.h"

#define NUMBER(field, rank)	       DTA_ELEMENT_NUMBER, DTA_FIELD_##field, rank, 0, 0
#define BITS(field, rank, shift, bits) DTA_ELEMENT_NUMBER, DTA_FIELD_##field, rank, shift, bits
#define V4(field, rank)		       DTA_ELEMENT_V4, DTA_FIELD_##field, rank, 0, 0
#define V6(field, rank)		       DTA_ELEMENT_V6, DTA_FIELD_##field, rank, 0, 0
#define TEXT(field, rank)	       DTA_ELEMENT_TEXT, DTA_FIELD_##field - DTA_FIELD_NUMBERS, rank, 0, 0
#define EXTRA(extra, rank)	       DTA_ELEMENT_EXTRA, DTA_EXTRA_##extra, rank, 0, 0

/* Sorted by enterprise and number. The comments are the names in the manual. */
static const struct dta_element elements[] = {
	{0, 1, NUMBER(BYTES, 1)},		     /* octetDeltaCount */
	{0, 2, NUMBER(PACKETS, 1)},		     /* packetDeltaCount */
	{0, 4, NUMBER(PROTOCOL, 1)},		     /* protocolIdentifier */
	{0, 5, NUMBER(TOS, 1)},			     /* ipClassOfService */
	{0, 6, NUMBER(TCP_FLAGS, 1)},		     /* tcpControlBits */
	{0, 7, NUMBER(SOURCE_PORT, 1)},		     /* sourceTransportPort */
	{0, 8, V4(SOURCE, 1)},			     /* sourceIPv4Address */
	{0, 9, NUMBER(SOURCE_PREFIX, 1)},	     /* sourceIPv4PrefixLength */
	{0, 10, NUMBER(INGRESS, 1)},		     /* ingressInterface */
	{0, 11, NUMBER(DESTINATION_PORT, 1)},	     /* destinationTransportPort */
	{0, 12, V4(DESTINATION, 1)},		     /* destinationIPv4Address */
	{0, 13, NUMBER(DESTINATION_PREFIX, 1)},	     /* destinationIPv4PrefixLength */
	{0, 14, NUMBER(EGRESS, 1)},		     /* egressInterface */
	{0, 15, V4(NEXT_HOP, 1)},		     /* ipNextHopIPv4Address */
	{0, 16, NUMBER(SOURCE_AS, 1)},		     /* bgpSourceAsNumber */
	{0, 17, NUMBER(DESTINATION_AS, 1)},	     /* bgpDestinationAsNumber */
	{0, 18, V4(NEXT_HOP, 2)},		     /* bgpNextHopIPv4Address */
	{0, 21, EXTRA(END_UP, 1)},		     /* flowEndSysUpTime */
	{0, 22, EXTRA(START_UP, 1)},		     /* flowStartSysUpTime */
	{0, 23, NUMBER(BYTES, 2)},		     /* postOctetDeltaCount */
	{0, 24, NUMBER(PACKETS, 2)},		     /* postPacketDeltaCount */
	{0, 27, V6(SOURCE, 1)},			     /* sourceIPv6Address */
	{0, 28, V6(DESTINATION, 1)},		     /* destinationIPv6Address */
	{0, 29, NUMBER(SOURCE_PREFIX, 2)},	     /* sourceIPv6PrefixLength */
	{0, 30, NUMBER(DESTINATION_PREFIX, 2)},	     /* destinationIPv6PrefixLength */
	{0, 32, NUMBER(ICMP, 1)},		     /* icmpTypeCodeIPv4 */
	{0, 34, EXTRA(SAMPLING, 1)},		     /* samplingInterval */
	{0, 44, V4(SOURCE, 2)},			     /* sourceIPv4Prefix */
	{0, 45, V4(DESTINATION, 2)},		     /* destinationIPv4Prefix */
	{0, 48, EXTRA(SELECTOR, 2)},		     /* samplerId */
	{0, 50, EXTRA(SAMPLING, 2)},		     /* samplerRandomInterval */
	{0, 52, NUMBER(TTL, 2)},		     /* minimumTTL */
	{0, 53, NUMBER(TTL, 3)},		     /* maximumTTL */
	{0, 56, NUMBER(SOURCE_MAC, 1)},		     /* sourceMacAddress */
	{0, 57, NUMBER(DESTINATION_MAC, 2)},	     /* postDestinationMacAddress */
	{0, 58, NUMBER(VLAN, 1)},		     /* vlanId */
	{0, 59, NUMBER(VLAN, 3)},		     /* postVlanId */
	{0, 60, NUMBER(IP_VERSION, 1)},		     /* ipVersion */
	{0, 61, NUMBER(DIRECTION, 1)},		     /* flowDirection */
	{0, 62, V6(NEXT_HOP, 1)},		     /* ipNextHopIPv6Address */
	{0, 63, V6(NEXT_HOP, 2)},		     /* bgpNextHopIPv6Address */
	{0, 70, BITS(MPLS_LABEL, 1, 4, 20)},	     /* mplsTopLabelStackSection */
	{0, 71, BITS(MPLS_LABEL_2, 1, 4, 20)},	     /* mplsLabelStackSection2 */
	{0, 72, BITS(MPLS_LABEL_3, 1, 4, 20)},	     /* mplsLabelStackSection3 */
	{0, 80, NUMBER(DESTINATION_MAC, 1)},	     /* destinationMacAddress */
	{0, 81, NUMBER(SOURCE_MAC, 2)},		     /* postSourceMacAddress */
	{0, 82, TEXT(NAME, 1)},			     /* interfaceName */
	{0, 83, TEXT(DESCRIPTION, 1)},		     /* interfaceDescription */
	{0, 85, NUMBER(BYTES, 3)},		     /* octetTotalCount */
	{0, 86, NUMBER(PACKETS, 3)},		     /* packetTotalCount */
	{0, 89, NUMBER(FORWARDING_STATUS, 1)},	     /* forwardingStatus */
	{0, 94, TEXT(DESCRIPTION, 2)},		     /* applicationDescription */
	{0, 95, BITS(APPLICATION, 1, 0, 64)},	     /* applicationId */
	{0, 96, TEXT(NAME, 2)},			     /* applicationName */
	{0, 128, NUMBER(NEXT_AS, 1)},		     /* bgpNextAdjacentAsNumber */
	{0, 129, NUMBER(PREVIOUS_AS, 1)},	     /* bgpPrevAdjacentAsNumber */
	{0, 136, NUMBER(END_REASON, 1)},	     /* flowEndReason */
	{0, 138, NUMBER(OBSERVATION_POINT, 1)},	     /* observationPointId */
	{0, 139, NUMBER(ICMP, 2)},		     /* icmpTypeCodeIPv6 */
	{0, 150, EXTRA(START_S, 1)},		     /* flowStartSeconds */
	{0, 151, EXTRA(END_S, 1)},		     /* flowEndSeconds */
	{0, 152, EXTRA(START_MS, 1)},		     /* flowStartMilliseconds */
	{0, 153, EXTRA(END_MS, 1)},		     /* flowEndMilliseconds */
	{0, 154, EXTRA(START_NTP, 1)},		     /* flowStartMicroseconds */
	{0, 155, EXTRA(END_NTP, 1)},		     /* flowEndMicroseconds */
	{0, 156, EXTRA(START_NTP, 2)},		     /* flowStartNanoseconds */
	{0, 157, EXTRA(END_NTP, 2)},		     /* flowEndNanoseconds */
	{0, 158, EXTRA(START_BEFORE, 1)},	     /* flowStartDeltaMicroseconds */
	{0, 159, EXTRA(END_BEFORE, 1)},		     /* flowEndDeltaMicroseconds */
	{0, 160, EXTRA(BOOT_MS, 1)},		     /* systemInitTimeMilliseconds */
	{0, 169, V6(DESTINATION, 2)},		     /* destinationIPv6Prefix */
	{0, 170, V6(SOURCE, 2)},		     /* sourceIPv6Prefix */
	{0, 176, EXTRA(ICMP_TYPE, 1)},		     /* icmpTypeIPv4 */
	{0, 177, EXTRA(ICMP_CODE, 1)},		     /* icmpCodeIPv4 */
	{0, 178, EXTRA(ICMP_TYPE, 2)},		     /* icmpTypeIPv6 */
	{0, 179, EXTRA(ICMP_CODE, 2)},		     /* icmpCodeIPv6 */
	{0, 180, NUMBER(SOURCE_PORT, 2)},	     /* udpSourcePort */
	{0, 181, NUMBER(DESTINATION_PORT, 2)},	     /* udpDestinationPort */
	{0, 182, NUMBER(SOURCE_PORT, 3)},	     /* tcpSourcePort */
	{0, 183, NUMBER(DESTINATION_PORT, 3)},	     /* tcpDestinationPort */
	{0, 192, NUMBER(TTL, 1)},		     /* ipTTL */
	{0, 195, NUMBER(DSCP, 1)},		     /* ipDiffServCodePoint */
	{0, 225, V4(NAT_SOURCE, 1)},		     /* postNATSourceIPv4Address */
	{0, 226, V4(NAT_DESTINATION, 1)},	     /* postNATDestinationIPv4Address */
	{0, 227, NUMBER(NAT_SOURCE_PORT, 1)},	     /* postNAPTSourceTransportPort */
	{0, 228, NUMBER(NAT_DESTINATION_PORT, 1)},   /* postNAPTDestinationTransportPort */
	{0, 230, NUMBER(NAT_EVENT, 1)},		     /* natEvent */
	{0, 231, NUMBER(BYTES, 4)},		     /* initiatorOctets */
	{0, 232, EXTRA(REVERSE_BYTES, 3)},	     /* responderOctets */
	{0, 233, NUMBER(FIREWALL_EVENT, 1)},	     /* firewallEvent */
	{0, 234, NUMBER(INGRESS_VRF, 1)},	     /* ingressVRFID */
	{0, 235, NUMBER(EGRESS_VRF, 1)},	     /* egressVRFID */
	{0, 236, TEXT(NAME, 3)},		     /* VRFname */
	{0, 243, NUMBER(VLAN, 2)},		     /* dot1qVlanId */
	{0, 245, NUMBER(CUSTOMER_VLAN, 1)},	     /* dot1qCustomerVlanId */
	{0, 281, V6(NAT_SOURCE, 1)},		     /* postNATSourceIPv6Address */
	{0, 282, V6(NAT_DESTINATION, 1)},	     /* postNATDestinationIPv6Address */
	{0, 298, NUMBER(PACKETS, 4)},		     /* initiatorPackets */
	{0, 299, EXTRA(REVERSE_PACKETS, 3)},	     /* responderPackets */
	{0, 302, EXTRA(SELECTOR, 1)},		     /* selectorId */
	{0, 305, EXTRA(SAMPLED, 1)},		     /* samplingPacketInterval */
	{0, 306, EXTRA(SPACE, 1)},		     /* samplingPacketSpace */
	{0, 309, EXTRA(SAMPLE_SIZE, 1)},	     /* samplingSize */
	{0, 310, EXTRA(POPULATION, 1)},		     /* samplingPopulation */
	{0, 311, EXTRA(PROBABILITY, 1)},	     /* samplingProbability */
	{0, 322, EXTRA(END_S, 2)},		     /* observationTimeSeconds */
	{0, 323, EXTRA(END_MS, 2)},		     /* observationTimeMilliseconds */
	{0, 324, EXTRA(END_NTP, 3)},		     /* observationTimeMicroseconds */
	{0, 325, EXTRA(END_NTP, 4)},		     /* observationTimeNanoseconds */
	{0, 351, BITS(TUNNEL_ID, 1, 0, 24)},	     /* layer2SegmentId */
	{0, 352, NUMBER(BYTES, 5)},		     /* layer2OctetDeltaCount */
	{0, 40001, V4(NAT_SOURCE, 2)},		     /* Cisco ASA: translated source */
	{0, 40002, V4(NAT_DESTINATION, 2)},	     /* Cisco ASA: translated destination */
	{0, 40003, NUMBER(NAT_SOURCE_PORT, 2)},	     /* Cisco ASA: translated source port */
	{0, 40004, NUMBER(NAT_DESTINATION_PORT, 2)}, /* Cisco ASA: translated destination port */
	{0, 40005, NUMBER(FIREWALL_EVENT, 2)},	     /* Cisco ASA: event */
	{0, 56701, TEXT(NAME, 4)},		     /* Palo Alto: App-ID */
	{6871, 33, BITS(APPLICATION, 2, 0, 64)},     /* CERT: silkAppLabel */
	{25461, 56701, TEXT(NAME, 4)},		     /* Palo Alto: App-ID */
	{DTA_ENTERPRISE_REVERSE, 1, EXTRA(REVERSE_BYTES, 1)},	  /* reverse octetDeltaCount */
	{DTA_ENTERPRISE_REVERSE, 2, EXTRA(REVERSE_PACKETS, 1)},	  /* reverse packetDeltaCount */
	{DTA_ENTERPRISE_REVERSE, 5, EXTRA(REVERSE_TOS, 1)},	  /* reverse ipClassOfService */
	{DTA_ENTERPRISE_REVERSE, 6, EXTRA(REVERSE_TCP_FLAGS, 1)}, /* reverse tcpControlBits */
	{DTA_ENTERPRISE_REVERSE, 85, EXTRA(REVERSE_BYTES, 2)},	  /* reverse octetTotalCount */
	{DTA_ENTERPRISE_REVERSE, 86, EXTRA(REVERSE_PACKETS, 2)},  /* reverse packetTotalCount */
	{DTA_ENTERPRISE_REVERSE, 152,
	 EXTRA(REVERSE_START_MS, 1)},				 /* reverse flowStartMilliseconds */
	{DTA_ENTERPRISE_REVERSE, 153, EXTRA(REVERSE_END_MS, 1)}, /* reverse flowEndMilliseconds */
};

const struct dta_element *dta_element_find(uint32_t enterprise, uint16_t id)
{
	const size_t n = sizeof(elements) / sizeof(*elements);
	size_t i;

	BASE_LOWER_BOUND(i, 0, n,
			 elements[i].enterprise < enterprise ||
				 (elements[i].enterprise == enterprise && elements[i].id < id));
	return i < n && elements[i].enterprise == enterprise && elements[i].id == id ? &elements[i]
										     : NULL;
}
