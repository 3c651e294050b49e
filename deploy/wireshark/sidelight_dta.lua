-- SPDX-License-Identifier: Apache-2.0
-- sidelight_dta.lua - dissector for Direct Telemetry Access: reports and answers of format 2 (docs/dta-wire.md), and
-- both forms of the original. Copy it into a folder that "tshark -G folders" names for Lua plugins, or run
-- "tshark -X lua_script:sidelight_dta.lua". On other ports: Decode As..., "DTA".

local REPORTS, ANSWERS, MAGIC = 40040, 40044, 0xd7

local dta = Proto("sldta", "Direct Telemetry Access")

dta.prefs.legacy = Pref.enum("The original's form", 0, "Form of packets on port 40040 that do not begin with 0xd7", {
	{ 1, "none", 0 }, { 2, "a", 1 }, { 3, "b", 2 } }, false)

local opcodes = {
	[1] = "Key-Write", [2] = "Append", [3] = "Key-Increment", [4] = "Postcard", [5] = "Sketch-Merge", [6] = "End of epoch",
}
local types = { [1] = "ACK", [2] = "NACK" }

local f = {
	magic = ProtoField.uint8("sldta.magic", "Magic", base.HEX),
	version = ProtoField.uint8("sldta.version", "Version"),
	flags = ProtoField.uint8("sldta.flags", "Flags", base.HEX),
	authenticated = ProtoField.bool("sldta.flags.authenticated", "Authenticated", 8, nil, 0x01),
	again = ProtoField.bool("sldta.flags.again", "Sent before", 8, nil, 0x02),
	ack_wanted = ProtoField.bool("sldta.flags.ack_wanted", "Answer wanted", 8, nil, 0x04),
	blocks = ProtoField.uint8("sldta.blocks", "Blocks"),
	tenant = ProtoField.uint16("sldta.tenant", "Tenant"),
	length = ProtoField.uint16("sldta.length", "Length"),
	reporter = ProtoField.uint32("sldta.reporter", "Reporter"),
	sequence = ProtoField.uint32("sldta.sequence", "Sequence"),
	time = ProtoField.absolute_time("sldta.time", "Time", base.UTC),
	incarnation = ProtoField.uint32("sldta.incarnation", "Incarnation"),
	reports = ProtoField.uint32("sldta.reports", "Reports"),
	block = ProtoField.bytes("sldta.block", "Block"),
	opcode = ProtoField.uint8("sldta.opcode", "Opcode", base.DEC, opcodes),
	block_flags = ProtoField.uint8("sldta.block.flags", "Flags", base.HEX),
	immediate = ProtoField.bool("sldta.immediate", "Immediate", 8, nil, 0x01),
	essential = ProtoField.bool("sldta.essential", "Essential", 8, nil, 0x02),
	count = ProtoField.uint16("sldta.count", "Items"),
	copies = ProtoField.uint8("sldta.copies", "Copies"),
	key_bytes = ProtoField.uint8("sldta.key_bytes", "Key bytes"),
	value_bytes = ProtoField.uint16("sldta.value_bytes", "Value bytes"),
	store = ProtoField.uint16("sldta.store", "Store"),
	answer_window = ProtoField.uint32("sldta.answer.window", "Window"),
	reserved = ProtoField.uint32("sldta.reserved", "Reserved", base.HEX),
	item = ProtoField.bytes("sldta.item", "Report"),
	item_sequence = ProtoField.uint32("sldta.item.sequence", "Sequence"),
	key = ProtoField.bytes("sldta.key", "Key"),
	value = ProtoField.bytes("sldta.value", "Value"),
	list = ProtoField.uint32("sldta.list", "List"),
	addend = ProtoField.uint64("sldta.addend", "Addend"),
	hop = ProtoField.uint8("sldta.hop", "Hop"),
	hops = ProtoField.uint8("sldta.hops", "Hops of the path"),
	hop_data = ProtoField.uint32("sldta.hop.data", "Data"),
	epoch = ProtoField.uint32("sldta.epoch", "Epoch"),
	row = ProtoField.uint32("sldta.row", "Row"),
	column = ProtoField.uint32("sldta.column", "First column"),
	cells = ProtoField.bytes("sldta.cells", "Cells"),
	ended = ProtoField.uint32("sldta.ended", "Reports of the epoch"),
	translator = ProtoField.uint64("sldta.translator", "Translator meant", base.HEX),
	mac = ProtoField.bytes("sldta.mac", "MAC"),
	-- answers
	type = ProtoField.uint8("sldta.answer.type", "Type", base.DEC, types),
	ranges = ProtoField.uint8("sldta.answer.ranges", "Ranges"),
	next = ProtoField.uint32("sldta.answer.next", "Next"),
	credits = ProtoField.uint32("sldta.answer.credits", "Credits"),
	range = ProtoField.bytes("sldta.answer.range", "Range"),
	first = ProtoField.uint32("sldta.answer.first", "First"),
	range_count = ProtoField.uint32("sldta.answer.count", "Count"),
	-- the original's
	o_sequence = ProtoField.uint8("sldta.original.sequence", "Sequence"),
	o_immediate = ProtoField.bool("sldta.original.immediate", "Immediate", 8, nil, 0x80),
	o_retransmitable = ProtoField.bool("sldta.original.retransmitable", "Retransmitable", 8, nil, 0x40),
	o_redundancy = ProtoField.uint8("sldta.original.redundancy", "Redundancy"),
	o_nack = ProtoField.bool("sldta.original.nack", "NACK", 8, nil, 0x80),
}
dta.fields = f

local e = {
	short = ProtoExpert.new("sldta.truncated", "Shorter than its fields say", expert.group.MALFORMED, expert.severity.ERROR),
	long = ProtoExpert.new("sldta.oversized", "Longer than its fields say", expert.group.MALFORMED, expert.severity.ERROR),
	bad = ProtoExpert.new("sldta.refused", "A translator refuses it", expert.group.PROTOCOL, expert.severity.WARN),
}
dta.experts = e

local function refuse(tree, why)
	tree:add_proto_expert_info(e.bad, why)
end

-- Key and value of a report, by opcode.
local function item(tree, opcode, key, value)
	if opcode == 2 and key:len() == 4 then
		tree:add(f.list, key)
		tree:add(f.value, value)
	elseif opcode == 3 and value:len() == 8 then
		tree:add(f.key, key)
		tree:add(f.addend, value)
	elseif opcode == 4 and value:len() == 8 then
		tree:add(f.key, key)
		tree:add(f.hop, value(0, 1))
		tree:add(f.hops, value(1, 1))
		tree:add(f.reserved, value(2, 2))
		tree:add(f.hop_data, value(4, 4))
		if value(0, 1):uint() >= value(1, 1):uint() or value(1, 1):uint() > 64 or value(2, 2):uint() ~= 0 then
			refuse(tree, "value: no such hop")
		end
	elseif opcode == 5 and key:len() == 12 then
		tree:add(f.epoch, key(0, 4))
		tree:add(f.row, key(4, 4))
		tree:add(f.column, key(8, 4))
		tree:add(f.cells, value)
	elseif opcode == 6 and key:len() == 4 and value:len() == 4 then
		tree:add(f.epoch, key)
		tree:add(f.ended, value)
	else
		tree:add(f.key, key)
		tree:add(f.value, value)
	end
end

local function shape_refused(opcode, copies, k, v)
	if opcode < 1 or opcode > 6 then return "opcode" end
	local keyed = opcode == 1 or opcode == 3 or opcode == 4
	if keyed and (copies < 1 or copies > 8) or not keyed and copies ~= 0 then return "copies" end
	if keyed and (k < 4 or k > 64) then return "key" end
	if (opcode == 2 or opcode == 6) and k ~= 4 or opcode == 5 and k ~= 12 then return "key" end
	if (opcode == 1 or opcode == 2) and (v < 4 or v > 256) then return "value" end
	if (opcode == 3 or opcode == 4) and v ~= 8 or opcode == 6 and v ~= 4 then return "value" end
	if opcode == 5 and (v < 1 or v > 1024) then return "value" end
end

local function reports(buffer, pinfo, tree)
	local total = buffer:len()
	local sub = tree:add(dta, buffer())

	pinfo.cols.info = "Reports"
	if total < 32 then
		sub:add_proto_expert_info(e.short)
		return
	end
	local flags, length, sequence = buffer(2, 1):uint(), buffer(6, 2):uint(), buffer(12, 4):uint()
	local proof = flags % 2 == 1 and 24 or 0
	sub:add(f.magic, buffer(0, 1))
	sub:add(f.version, buffer(1, 1))
	local flag = sub:add(f.flags, buffer(2, 1))
	flag:add(f.authenticated, buffer(2, 1))
	flag:add(f.again, buffer(2, 1))
	flag:add(f.ack_wanted, buffer(2, 1))
	sub:add(f.blocks, buffer(3, 1))
	sub:add(f.tenant, buffer(4, 2))
	sub:add(f.length, buffer(6, 2))
	sub:add(f.reporter, buffer(8, 4))
	sub:add(f.sequence, buffer(12, 4))
	local ns = buffer(16, 8):uint64()
	sub:add(f.time, buffer(16, 8), NSTime((ns / 1000000000):tonumber(), (ns % 1000000000):tonumber()))
	sub:add(f.incarnation, buffer(24, 4))
	sub:add(f.reports, buffer(28, 4))
	if buffer(1, 1):uint() ~= 2 then refuse(sub, "version") end
	if flags > 7 then refuse(sub, "flags") end

	local at, stop, seen, names = 32, math.min(length, total), 0, {}
	for _ = 1, buffer(3, 1):uint() do
		if at + 12 > stop then
			sub:add_proto_expert_info(e.short)
			break
		end
		local opcode, count, copies = buffer(at, 1):uint(), buffer(at + 2, 2):uint(), buffer(at + 4, 1):uint()
		local k, v, store = buffer(at + 5, 1):uint(), buffer(at + 6, 2):uint(), buffer(at + 8, 2):uint()
		local whole = math.min(12 + count * (k + v), stop - at)
		local name = opcodes[opcode] or ("opcode " .. opcode)
		local block = sub:add(f.block, buffer(at, whole))
		block:set_text(string.format("Block: %d %s into store %d", count, name, store))
		names[#names + 1] = count .. " " .. name
		block:add(f.opcode, buffer(at, 1))
		flag = block:add(f.block_flags, buffer(at + 1, 1))
		flag:add(f.immediate, buffer(at + 1, 1))
		flag:add(f.essential, buffer(at + 1, 1))
		block:add(f.count, buffer(at + 2, 2))
		block:add(f.copies, buffer(at + 4, 1))
		block:add(f.key_bytes, buffer(at + 5, 1))
		block:add(f.value_bytes, buffer(at + 6, 2))
		block:add(f.store, buffer(at + 8, 2))
		block:add(f.reserved, buffer(at + 10, 2))
		local why = shape_refused(opcode, copies, k, v) or count == 0 and "count" or
			(buffer(at + 1, 1):uint() > 3 or buffer(at + 10, 2):uint() ~= 0) and "flags"
		if why then refuse(block, why) end
		at = at + 12
		for _ = 1, count do
			if k == 0 or v == 0 or at + k + v > stop then
				block:add_proto_expert_info(e.short)
				at = stop
				break
			end
			local one = block:add(f.item, buffer(at, k + v))
			local number = (sequence + seen) % 4294967296
			one:set_text(string.format("Report %d", number))
			one:add(f.item_sequence, buffer(at, 0), number):set_generated()
			item(one, opcode, buffer(at, k), buffer(at + k, v))
			seen = seen + 1
			at = at + k + v
		end
	end
	if total < length + proof then
		sub:add_proto_expert_info(e.short)
	elseif total > length + proof or at < length then
		sub:add_proto_expert_info(e.long)
	end
	if proof > 0 and total >= length + proof then
		sub:add(f.translator, buffer(length, 8))
		sub:add(f.mac, buffer(length + 8, 16))
	end
	if seen ~= buffer(28, 4):uint() then refuse(sub, "count: reports is not the sum of the items") end
	pinfo.cols.info = string.format("Reports of %u from %u on: %s", buffer(8, 4):uint(), sequence, table.concat(names, ", "))
end

local function answer(buffer, pinfo, tree)
	local total = buffer:len()
	local sub = tree:add(dta, buffer())

	pinfo.cols.info = "Answer"
	if total < 24 then
		sub:add_proto_expert_info(e.short)
		return
	end
	sub:add(f.magic, buffer(0, 1))
	sub:add(f.version, buffer(1, 1))
	sub:add(f.type, buffer(2, 1))
	sub:add(f.ranges, buffer(3, 1))
	sub:add(f.reporter, buffer(4, 4))
	sub:add(f.incarnation, buffer(8, 4))
	sub:add(f.next, buffer(12, 4))
	sub:add(f.credits, buffer(16, 4))
	sub:add(f.answer_window, buffer(20, 4))
	if buffer(1, 1):uint() ~= 2 then refuse(sub, "version") end
	local said = types[buffer(2, 1):uint()]
	if not said then refuse(sub, "type") end
	local at = 24
	for _ = 1, buffer(3, 1):uint() do
		if at + 8 > total then
			sub:add_proto_expert_info(e.short)
			return
		end
		local range = sub:add(f.range, buffer(at, 8))
		range:set_text(string.format("%u reports from %u on%s", buffer(at + 4, 4):uint(), buffer(at, 4):uint(),
			said == "ACK" and " are in the stores" or said and " are missing" or ""))
		range:add(f.first, buffer(at, 4))
		range:add(f.range_count, buffer(at + 4, 4))
		at = at + 8
	end
	if total == at + 16 then
		sub:add(f.mac, buffer(at, 16))
	elseif total ~= at then
		sub:add_proto_expert_info(e.long)
	end
	pinfo.cols.info = string.format("%s to %u, next %u", said or "Answer", buffer(4, 4):uint(),
		buffer(12, 4):uint())
end

local function original(buffer, pinfo, tree, form)
	local opcode, total, at = buffer(0, 1):uint(), buffer:len(), form + 1
	local sub = tree:add(dta, buffer())

	pinfo.cols.info = "Report (the original's), " .. (opcodes[opcode] or "opcode " .. opcode)
	sub:add(f.opcode, buffer(0, 1))
	if total < at then
		sub:add_proto_expert_info(e.short)
		return
	end
	if form == 2 then
		sub:add(f.o_sequence, buffer(1, 1))
		sub:add(f.o_retransmitable, buffer(2, 1))
	end
	sub:add(f.o_immediate, buffer(at - 1, 1))
	local wants = ({ 9, 8, 13, 9 })[opcode]
	if not wants then
		refuse(sub, "opcode")
		return
	end
	if total < at + wants then
		sub:add_proto_expert_info(e.short)
		return
	end
	if opcode == 1 or opcode == 3 then
		sub:add(f.o_redundancy, buffer(at, 1))
		if buffer(at, 1):uint() < 1 or buffer(at, 1):uint() > 8 then refuse(sub, "copies") end
		at = at + 1
	end
	if opcode == 2 then
		sub:add(f.list, buffer(at, 4))
	else
		sub:add(f.key, buffer(at, 4))
	end
	at = at + 4
	if opcode == 4 then
		sub:add(f.hop, buffer(at, 1))
		sub:add(f.hop_data, buffer(at + 1, 4))
		at = at + 5
	elseif opcode == 3 then
		sub:add(f.addend, buffer(at, 8))
		at = at + 8
	elseif opcode == 1 then
		local n = total - at
		sub:add(f.value, buffer(at))
		if n ~= 4 and n ~= 12 and n ~= 28 then refuse(sub, "value") end
		at = total
	else
		sub:add(f.value, buffer(at, 4))
		at = at + 4
	end
	if at < total then sub:add_proto_expert_info(e.long) end
end

local function original_answer(buffer, pinfo, tree)
	local sub = tree:add(dta, buffer())

	pinfo.cols.info = string.format("%s %d (the original's)", buffer(1, 1):uint() >= 128 and "NACK" or "ACK", buffer(0, 1):uint())
	sub:add(f.o_sequence, buffer(0, 1))
	sub:add(f.o_nack, buffer(1, 1))
	if buffer:len() > 2 then sub:add_proto_expert_info(e.long) end
end

-- On other ports an answer differs from a report only in its length.
local function is_answer(buffer, pinfo)
	local n = buffer:len()

	if pinfo.dst_port == REPORTS then return false end
	if pinfo.src_port == REPORTS or pinfo.dst_port == ANSWERS then return true end
	if n < 24 then return false end
	local whole = 24 + 8 * buffer(3, 1):uint()
	if n ~= whole and n ~= whole + 16 then return false end
	return n < 32 or buffer(6, 2):uint() + (buffer(2, 1):uint() % 2) * 24 ~= n
end

function dta.dissector(buffer, pinfo, tree)
	local n = buffer:len()

	if n == 0 then return 0 end
	if buffer(0, 1):uint() ~= MAGIC or pinfo.dst_port == ANSWERS and n == 2 then
		if pinfo.dst_port == ANSWERS then
			if n < 2 then return 0 end
			pinfo.cols.protocol = "DTA"
			original_answer(buffer, pinfo, tree)
		elseif dta.prefs.legacy ~= 0 then
			pinfo.cols.protocol = "DTA"
			original(buffer, pinfo, tree, dta.prefs.legacy)
		else
			return 0
		end
		return n
	end
	pinfo.cols.protocol = "DTA"
	if is_answer(buffer, pinfo) then
		answer(buffer, pinfo, tree)
	else
		reports(buffer, pinfo, tree)
	end
	return n
end

local udp = DissectorTable.get("udp.port")
udp:add(REPORTS, dta)
udp:add(ANSWERS, dta)
